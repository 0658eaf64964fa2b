package baselines

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// mixture is a mixture of k Gaussians in h dimensions.
type mixture struct {
	logWeights []float64      // k
	means      blas64.General // k×h
	// Σᵢ⁻¹ = PᵢPᵢᵀ. With full covariances Pᵢ is rows i·h to (i+1)·h−1 of k·h×h;
	// with diagonal ones its diagonal is row i of k×h.
	precisions blas64.General
	full       bool
	logDets    []float64 // k, log |Pᵢ|
}

// setLogDets works out log |Pᵢ|.
func (m *mixture) setLogDets() {
	h := m.means.Cols
	m.logDets = make([]float64, m.means.Rows)
	for i := range m.logDets {
		for j := range h {
			at := i*h + j
			if m.full {
				at = (i*h+j)*h + j
			}
			m.logDets[i] += math.Log(m.precisions.Data[at])
		}
	}
}

// each calls visit with the logarithms of weight times density under every
// component, block after block: rows×k.
func (m mixture) each(ctx context.Context, x blas32.General, visit func(first int, joint blas64.General)) error {
	k, h := m.means.Rows, m.means.Cols
	block := min(spectrumBlock, x.Rows)
	buf, zero := make([]float64, block*h), make([]float64, h)
	whitened, joint := newMatrix64(block, h), newMatrix64(block, k)
	for first := 0; first < x.Rows; first += spectrumBlock {
		joint.Rows = min(spectrumBlock, x.Rows-first)
		whitened.Rows = joint.Rows
		for c := range k {
			if err := ctx.Err(); err != nil {
				return err
			}
			if m.full {
				w := widened(x, first, first+joint.Rows, m.means.Data[c*h:(c+1)*h], buf)
				p := blas64.General{Rows: h, Cols: h, Stride: h, Data: m.precisions.Data[c*h*h : (c+1)*h*h]}
				blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, w, p, 0, whitened)
			} else {
				w := widened(x, first, first+joint.Rows, zero, buf)
				for i := range w.Rows {
					for j := range h {
						whitened.Data[i*h+j] = (w.Data[i*h+j] - m.means.Data[c*h+j]) * m.precisions.Data[c*h+j]
					}
				}
			}
			for i := range joint.Rows {
				joint.Data[i*k+c] = m.logWeights[c] + m.logDets[c] -
					(float64(h)*math.Log(2*math.Pi)+squaredNorm(whitened.Data[i*h:(i+1)*h]))/2
			}
		}
		visit(first, joint)
	}
	return ctx.Err()
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
	m := &mixture{logWeights: make([]float64, k), means: newMatrix64(k, h), full: full}
	rows := make([]float64, k)
	for i := range x.Rows {
		for c, share := range shares.Data[i*k : (i+1)*k] {
			// Rows that count for nothing are most of all.
			if share < leastShare {
				continue
			}
			rows[c] += share
			for j, v := range row(x, i) {
				m.means.Data[c*h+j] += share * float64(v)
			}
		}
	}
	for c := range k {
		// scikit-learn's guard against a component without rows.
		rows[c] += 10 * 0x1p-52
		m.logWeights[c] = math.Log(rows[c] / float64(x.Rows))
		for j := range h {
			m.means.Data[c*h+j] /= rows[c]
		}
	}
	if !full {
		m.precisions = newMatrix64(k, h)
		for i := range x.Rows {
			for c, share := range shares.Data[i*k : (i+1)*k] {
				if share < leastShare {
					continue
				}
				for j, v := range row(x, i) {
					d := float64(v) - m.means.Data[c*h+j]
					m.precisions.Data[c*h+j] += share * d * d
				}
			}
		}
		for c := range k {
			for j := range h {
				m.precisions.Data[c*h+j] = 1 / math.Sqrt(m.precisions.Data[c*h+j]/rows[c]+lambda)
			}
		}
		m.setLogDets()
		return m, ctx.Err()
	}
	m.precisions = newMatrix64(k*h, h)
	for c := range k {
		p, err := precisionRoot(ctx, x, shares, c, m.means.Data[c*h:(c+1)*h], rows[c], lambda)
		if err != nil {
			return nil, err
		}
		for i := range h {
			for j := i; j < h; j++ {
				m.precisions.Data[(c*h+i)*h+j] = p.At(i, j)
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
	block := newMatrix64(min(spectrumBlock, x.Rows), h)
	block.Rows = 0
	flush := func() error {
		if block.Rows > 0 {
			blas64.Syrk(blas.Trans, 1/rows, block, 1, covariance.RawSymmetric())
			block.Rows = 0
		}
		return ctx.Err()
	}
	for i := range x.Rows {
		share := shares.Data[i*shares.Stride+c]
		if share < leastShare {
			continue
		}
		root := math.Sqrt(share)
		for j, v := range row(x, i) {
			block.Data[block.Rows*h+j] = root * (float64(v) - mean[j])
		}
		if block.Rows++; block.Rows == spectrumBlock {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	if err := flush(); err != nil {
		return nil, err
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
