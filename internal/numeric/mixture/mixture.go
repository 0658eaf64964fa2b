// Package mixture fits mixtures of Gaussians by expectation maximisation, as scikit-learn's
// GaussianMixture does.
package mixture

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
)

// Gaussians is a mixture of k Gaussians in h dimensions.
type Gaussians struct {
	LogWeights []float64      `state:"log_weights[k]"`
	Means      blas64.General `state:"means[k,features]"`
	// Precisions holds the matrices Pᵢ with Σᵢ⁻¹ = PᵢPᵢᵀ for the covariances Σᵢ. With full
	// covariances, Precisions is k·h×h, and Pᵢ is in rows i·h to (i+1)·h−1. With diagonal
	// covariances, Precisions is k×h, and the diagonal of Pᵢ is in row i.
	Precisions blas64.General `state:"precisions[rows,features]"`
	Full       bool           `state:"full"`
	logDets    []float64      // log |Pᵢ|, k
}

// Restored implements rows.Restored.
func (m *Gaussians) Restored() error {
	want := m.Means.Rows
	if m.Full {
		want *= m.Means.Cols
	}
	if m.Precisions.Rows != want {
		return fmt.Errorf("%d rows of precisions of %d components", m.Precisions.Rows, m.Means.Rows)
	}
	m.setLogDets()
	for c, d := range m.logDets {
		if !rows.Finite(d) {
			return fmt.Errorf("component %d has no density: its precisions must be positive", c)
		}
	}
	return nil
}

// setLogDets computes log |Pᵢ| for every component i.
func (m *Gaussians) setLogDets() {
	m.logDets = make([]float64, m.Means.Rows)
	for c := range m.logDets {
		for j, v := range m.precision(c).Data {
			if !m.Full || j%(m.Means.Cols+1) == 0 {
				m.logDets[c] += math.Log(v)
			}
		}
	}
}

// precision returns Pᵢ of component c. If covariances are diagonal, it returns the diagonal
// as a matrix with one row.
func (m *Gaussians) precision(c int) blas64.General {
	h, n := m.Means.Cols, 1
	if m.Full {
		n = h
	}
	return blas64.General{Rows: n, Cols: h, Stride: h, Data: m.Precisions.Data[c*n*h : (c+1)*n*h]}
}

const (
	// As in scikit-learn, Fit stops after maxIterations, or if the mean log density changes by
	// less than tolerance.
	maxIterations = 100
	tolerance     = 1e-3
	// rowsAtOnce is the number of rows that are processed at once.
	rowsAtOnce = 1024
	// minResponsibility is the smallest responsibility that counts. Smaller ones, which are
	// most of them, do not change a float64 sum.
	minResponsibility = 1e-20
)

// Fit fits a mixture of Gaussians to the rows of x. It starts from clusters: clusters[i] is
// the cluster of row i, numbered from 0. lambda is added to every variance. Fit calls progress
// with the fraction of the iterations that are done.
func Fit(ctx context.Context, x blas32.General, clusters []int, full bool, lambda float64, progress func(done float64)) (*Gaussians, error) {
	responsibilities := dense.New(x.Rows, 1+slices.Max(clusters))
	for i, c := range clusters {
		dense.Row(responsibilities, i)[c] = 1
	}
	m, err := maximise(ctx, x, responsibilities, full, lambda)
	previous := math.Inf(-1)
	for iteration := 0; iteration < maxIterations && err == nil; iteration++ {
		progress(float64(iteration) / maxIterations)
		var mean float64
		for first := 0; first < x.Rows; first += rowsAtOnce {
			logJoint := m.logJoint(rows.Slice(x, first, min(first+rowsAtOnce, x.Rows)))
			for i := range logJoint.Rows {
				density := floats.LogSumExp(dense.Row(logJoint, i))
				mean += density / float64(x.Rows)
				for c, v := range dense.Row(logJoint, i) {
					dense.Row(responsibilities, first+i)[c] = math.Exp(v - density)
				}
			}
		}
		m, err = maximise(ctx, x, responsibilities, full, lambda)
		if math.Abs(mean-previous) < tolerance {
			break
		}
		previous = mean
	}
	return m, err
}

// LogDensities sets dst to the log density of each row of x.
func (m *Gaussians) LogDensities(dst []float64, x blas32.General) {
	logJoint := m.logJoint(x)
	for i := range dst {
		dst[i] = floats.LogSumExp(dense.Row(logJoint, i))
	}
}

// LogDensitiesGraph writes the computation of LogDensities as graph nodes. x is n×h.
func (m *Gaussians) LogDensitiesGraph(x graph.Tensor) graph.Tensor {
	h := float64(m.Means.Cols)
	var distances []graph.Tensor
	constants := make([]float64, m.Means.Rows)
	for c := range constants {
		d := x.Double().Sub(dense.Row(m.Means, c))
		if p := m.precision(c); m.Full {
			d = d.MatMul(p)
		} else {
			d = d.Mul(p.Data)
		}
		distances = append(distances, d.SumSquares())
		constants[c] = m.LogWeights[c] + m.logDets[c] - h*math.Log(2*math.Pi)/2
	}
	return distances[0].Concat(distances[1:]...).Mul(-.5).Add(constants).LogSumExp()
}

// logJoint returns the logarithm of the weight times the density of each row under each
// component. The result is rows×k.
func (m *Gaussians) logJoint(x blas32.General) blas64.General {
	h := m.Means.Cols
	centred, whitened, logJoint := dense.New(x.Rows, h), dense.New(x.Rows, h), dense.New(x.Rows, m.Means.Rows)
	for c := range m.Means.Rows {
		dense.SetLess(centred, x, dense.Row(m.Means, c))
		if p := m.precision(c); m.Full {
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, centred, p, 0, whitened)
		} else {
			for i := range x.Rows {
				floats.MulTo(dense.Row(whitened, i), dense.Row(centred, i), p.Data)
			}
		}
		for i := range logJoint.Rows {
			dense.Row(logJoint, i)[c] = m.LogWeights[c] + m.logDets[c] - (float64(h)*math.Log(2*math.Pi)+dense.SquaredNorm(dense.Row(whitened, i)))/2
		}
	}
	return logJoint
}

// maximise is the M step. It returns the mixture that fits the rows best, given the
// responsibilities of the components for the rows, n×k.
func maximise(ctx context.Context, x blas32.General, responsibilities blas64.General, full bool, lambda float64) (*Gaussians, error) {
	k, h := responsibilities.Cols, x.Cols
	m := &Gaussians{LogWeights: make([]float64, k), Means: dense.New(k, h), Full: full, Precisions: dense.New(k, h)}
	if full {
		m.Precisions = dense.New(k*h, h)
	}
	for first := 0; first < x.Rows; first += rowsAtOnce {
		block := dense.Less(rows.Slice(x, first, min(first+rowsAtOnce, x.Rows)), nil)
		part := blas64.General{Rows: block.Rows, Cols: k, Stride: k, Data: responsibilities.Data[first*k:]}
		blas64.Gemm(blas.Trans, blas.NoTrans, 1, part, block, 1, m.Means)
	}
	for c := range k {
		// Like scikit-learn, start from a small number, so that a component without rows does
		// not divide by 0.
		total := 10 * 0x1p-52
		var members []int
		for i := range x.Rows {
			if responsibility := dense.Row(responsibilities, i)[c]; responsibility >= minResponsibility {
				members, total = append(members, i), total+responsibility
			}
		}
		mean := dense.Row(m.Means, c)
		floats.Scale(1/total, mean)
		m.LogWeights[c] = math.Log(total / float64(x.Rows))
		// The blocks contain rows minus the mean, multiplied by the square root of their
		// responsibility.
		covariance, variance := mat.NewSymDense(1, nil), m.precision(c).Data
		if full {
			covariance = mat.NewSymDense(h, nil)
		}
		for chunk := range slices.Chunk(members, rowsAtOnce) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			block := dense.New(len(chunk), h)
			for b, i := range chunk {
				root, out := math.Sqrt(dense.Row(responsibilities, i)[c]), dense.Row(block, b)
				for j, v := range rows.Row(x, i) {
					out[j] = root * (float64(v) - mean[j])
				}
				if !full {
					floats.Mul(out, out)
					floats.Add(variance, out)
				}
			}
			if full {
				blas64.Syrk(blas.Trans, 1/total, block, 1, covariance.RawSymmetric())
			}
		}
		if !full {
			for j, v := range variance {
				variance[j] = 1 / math.Sqrt(v/total+lambda)
			}
			continue
		}
		for j := range h {
			covariance.SetSym(j, j, covariance.At(j, j)+lambda)
		}
		root, ok := dense.InverseRoot(covariance)
		if !ok {
			return nil, fmt.Errorf("a component's covariance has no inverse with lambda=%v added to its variances: choose a larger one, or fewer components", lambda)
		}
		copy(m.precision(c).Data, root.Data)
	}
	m.setLogDets()
	return m, ctx.Err()
}
