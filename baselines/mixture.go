package baselines

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// mixture is a mixture of k Gaussians in h dimensions.
type mixture struct {
	LogWeights []float64      `state:"log_weights[k]"`
	Means      blas64.General `state:"means[k,features]"`
	// Σᵢ⁻¹ = PᵢPᵢᵀ. With full covariances Pᵢ is rows i·h to (i+1)·h−1 of k·h×h;
	// with diagonal ones its diagonal is row i of k×h.
	Precisions blas64.General `state:"precisions[rows,features]"`
	Full       bool           `state:"full"`
	logDets    []float64      // k, log |Pᵢ|
}

// setLogDets works out log |Pᵢ|.
func (m *mixture) setLogDets() {
	h := m.Means.Cols
	m.logDets = make([]float64, m.Means.Rows)
	for i := range m.logDets {
		for j := range h {
			at := i*h + j
			if m.Full {
				at = (i*h+j)*h + j
			}
			m.logDets[i] += math.Log(m.Precisions.Data[at])
		}
	}
}

// Restored implements rows.Restored.
func (m *mixture) Restored() error {
	want := m.Means.Rows
	if m.Full {
		want *= m.Means.Cols
	}
	if m.Precisions.Rows != want {
		return fmt.Errorf("%d rows of precisions of %d components", m.Precisions.Rows, m.Means.Rows)
	}
	m.setLogDets()
	for c, d := range m.logDets {
		if d-d != 0 {
			return fmt.Errorf("component %d has no density: its precisions must be positive", c)
		}
	}
	return nil
}

// joint is the logarithms of weight times density of rows under every
// component: rows×k.
func (m *mixture) joint(x blas32.General) blas64.General {
	h := m.Means.Cols
	centred, whitened, joint := newMatrix64(x.Rows, h), newMatrix64(x.Rows, h), newMatrix64(x.Rows, m.Means.Rows)
	for c := range m.Means.Rows {
		widen(centred, x, row64(m.Means, c))
		if m.Full {
			p := blas64.General{Rows: h, Cols: h, Stride: h, Data: m.Precisions.Data[c*h*h : (c+1)*h*h]}
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, centred, p, 0, whitened)
		} else {
			for i := range whitened.Data {
				whitened.Data[i] = centred.Data[i] * m.Precisions.Data[c*h+i%h]
			}
		}
		for i := range joint.Rows {
			row64(joint, i)[c] = m.LogWeights[c] + m.logDets[c] - (float64(h)*math.Log(2*math.Pi)+squaredNorm(row64(whitened, i)))/2
		}
	}
	return joint
}

// logSumExp is log Σ exp(v).
func logSumExp(v []float64) float64 {
	top := math.Inf(-1)
	for _, x := range v {
		top = max(top, x)
	}
	if math.IsInf(top, 0) {
		return top
	}
	var s float64
	for _, x := range v {
		s += math.Exp(x - top)
	}
	return top + math.Log(s)
}

// maximise is the M step: the mixture that fits rows with the given
// responsibilities, n×k, best. lambda is added to every variance.
func maximise(ctx context.Context, x blas32.General, shares blas64.General, full bool, lambda float64) (*mixture, error) {
	k, h := shares.Cols, x.Cols
	m := &mixture{LogWeights: make([]float64, k), Means: newMatrix64(k, h), Full: full}
	rows := make([]float64, k)
	for i := range x.Rows {
		for c, share := range shares.Data[i*k : (i+1)*k] {
			// Rows that count for nothing are most of all.
			if share < leastShare {
				continue
			}
			rows[c] += share
			for j, v := range row(x, i) {
				m.Means.Data[c*h+j] += share * float64(v)
			}
		}
	}
	for c := range k {
		// scikit-learn's guard against a component without rows.
		rows[c] += 10 * 0x1p-52
		m.LogWeights[c] = math.Log(rows[c] / float64(x.Rows))
		for j := range h {
			m.Means.Data[c*h+j] /= rows[c]
		}
	}
	if !full {
		m.Precisions = newMatrix64(k, h)
		for i := range x.Rows {
			for c, share := range shares.Data[i*k : (i+1)*k] {
				if share < leastShare {
					continue
				}
				for j, v := range row(x, i) {
					d := float64(v) - m.Means.Data[c*h+j]
					m.Precisions.Data[c*h+j] += share * d * d
				}
			}
		}
		for c := range k {
			for j := range h {
				m.Precisions.Data[c*h+j] = 1 / math.Sqrt(m.Precisions.Data[c*h+j]/rows[c]+lambda)
			}
		}
		m.setLogDets()
		return m, ctx.Err()
	}
	m.Precisions = newMatrix64(k*h, h)
	for c := range k {
		p, err := precisionRoot(ctx, x, shares, c, m.Means.Data[c*h:(c+1)*h], rows[c], lambda)
		if err != nil {
			return nil, err
		}
		for i := range h {
			for j := i; j < h; j++ {
				m.Precisions.Data[(c*h+i)*h+j] = p.At(i, j)
			}
		}
	}
	m.setLogDets()
	return m, nil
}

// Responsibilities below this change no sum of float64 numbers.
const leastShare = 1e-20

// precisionRoot is U⁻¹ of component c's covariance UᵀU.
func precisionRoot(ctx context.Context, x blas32.General, shares blas64.General, c int, mean []float64, rows, lambda float64) (*mat.TriDense, error) {
	h := x.Cols
	covariance := mat.NewSymDense(h, nil)
	var counting []int
	for i := range x.Rows {
		if row64(shares, i)[c] >= leastShare {
			counting = append(counting, i)
		}
	}
	for some := range slices.Chunk(counting, 1024) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		block := newMatrix64(len(some), h)
		for k, i := range some {
			root := math.Sqrt(row64(shares, i)[c])
			for j, v := range row(x, i) {
				row64(block, k)[j] = root * (float64(v) - mean[j])
			}
		}
		blas64.Syrk(blas.Trans, 1/rows, block, 1, covariance.RawSymmetric())
	}
	for j := range h {
		covariance.SetSym(j, j, covariance.At(j, j)+lambda)
	}
	var cholesky mat.Cholesky
	if !cholesky.Factorize(covariance) {
		return nil, fmt.Errorf("a component's covariance has no inverse with lambda=%v added to its variances: choose a larger one, or fewer components", lambda)
	}
	var u, inverse mat.TriDense
	cholesky.UTo(&u)
	// What is inexact by its condition is still what scikit-learn takes.
	if err, inexact := inverse.InverseTri(&u).(mat.Condition); inexact && math.IsInf(float64(err), 1) {
		return nil, fmt.Errorf("a component's covariance: %w", err)
	}
	return &inverse, nil
}
