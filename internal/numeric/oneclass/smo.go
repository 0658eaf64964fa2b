// Package oneclass solves one-class support vector machines with a Gaussian kernel by
// sequential minimal optimisation.
package oneclass

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/moments"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
)

// Kernel computes the kernel exp(−gamma·‖x−y‖²) of any row x with fixed rows y.
type Kernel struct {
	gamma        float64
	mean         []float64
	rows         blas64.General // fixed rows minus mean, n×h
	squaredNorms []float64      // squared norms of rows
}

// NewKernel returns a kernel with the rows of y as fixed rows.
func NewKernel(y blas32.General, gamma float64) *Kernel {
	k := &Kernel{gamma: gamma, mean: moments.Mean(y, false)}
	k.rows = dense.Less(y, k.mean)
	k.squaredNorms = squaredNorms(k.rows)
	return k
}

func squaredNorms(x blas64.General) []float64 {
	s := make([]float64, x.Rows)
	for i := range s {
		s[i] = dense.SquaredNorm(dense.Row(x, i))
	}
	return s
}

// Sums sets dst to Σ coefficient·kernel over the fixed rows, for each row of x.
func (k *Kernel) Sums(dst []float64, x blas32.General, coefficients []float64) {
	centred, products := dense.Less(x, k.mean), dense.New(x.Rows, k.rows.Rows)
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, centred, k.rows, 0, products)
	for i, square := range squaredNorms(centred) {
		dst[i] = 0
		for j, product := range dense.Row(products, i) {
			dst[i] += coefficients[j] * k.value(j, product, square)
		}
	}
}

// SumsGraph writes the computation of Sums as graph nodes.
func (k *Kernel) SumsGraph(x graph.Tensor, coefficients []float64) graph.Tensor {
	x = x.Double().Sub(k.mean)
	d := x.MatMulT(k.rows, k.rows.Rows).Mul(-2.).Add(k.squaredNorms).Add(x.SumSquares()).Max(0.)
	return d.Mul(-k.gamma).Exp().Mul(coefficients).Sum()
}

// value returns the kernel of fixed row i and another row, given their scalar product and the
// squared norm of the other row.
func (k *Kernel) value(i int, product, square float64) float64 {
	// NaN < 0 is false, so a NaN is kept.
	d := k.squaredNorms[i] + square - 2*product
	if d < 0 {
		d = 0
	}
	return math.Exp(-k.gamma * d)
}

// matrix returns the kernel of all pairs of fixed rows, n×n.
func (k *Kernel) matrix(ctx context.Context) (blas32.General, error) {
	const blockRows = 256
	n := k.rows.Rows
	m := rows.New(n, n)
	products := make([]float64, min(blockRows, n)*n)
	for first := 0; first < n; first += blockRows {
		if err := ctx.Err(); err != nil {
			return m, err
		}
		// The kernel is symmetric, so the products with earlier rows are already known.
		left, right := k.from(first), k.from(first)
		left.Rows = min(blockRows, left.Rows)
		p := blas64.General{Rows: left.Rows, Cols: right.Rows, Stride: right.Rows, Data: products}
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, left, right, 0, p)
		for i := range p.Rows {
			for j, product := range dense.Row(p, i) {
				v := float32(k.value(first+j, product, k.squaredNorms[first+i]))
				m.Data[(first+i)*n+first+j], m.Data[(first+j)*n+first+i] = v, v
			}
		}
	}
	return m, nil
}

// from returns the fixed rows from row first on.
func (k *Kernel) from(first int) blas64.General {
	h := k.rows.Cols
	return blas64.General{Rows: k.rows.Rows - first, Cols: h, Stride: h, Data: k.rows.Data[first*h:]}
}

// maxSteps limits the number of steps. Each step changes two coefficients.
const maxSteps = 10_000_000

// Solve minimises αᵀKα/2 subject to 0 ≤ α ≤ 1 and Σα = nu·n for n fixed rows. It stops if no
// pair of coefficients violates the optimality conditions by more than tolerance. It returns α
// and the offset ρ.
//
// Pairs of coefficients are selected by second-order information, as in LIBSVM: working set
// selection 2 of Fan, Chen & Lin (2005).
func Solve(ctx context.Context, k *Kernel, nu, tolerance float64, progress func(float64)) (alpha []float64, rho float64, err error) {
	n := k.rows.Rows
	alpha = make([]float64, n)
	remaining := nu * float64(n)
	for i := range alpha {
		alpha[i] = min(1, remaining)
		remaining -= alpha[i]
		if remaining <= 0 {
			break
		}
	}
	m, err := k.matrix(ctx)
	if err != nil {
		return nil, 0, err
	}
	gradient := make([]float64, n)
	for i, a := range alpha {
		if a == 0 {
			continue
		}
		for t, v := range rows.Row(m, i) {
			gradient[t] += a * float64(v)
		}
	}
	start := 0.
	for step := range maxSteps {
		i, j, gap := pair(m, alpha, gradient)
		if gap < tolerance {
			return alpha, offset(alpha, gradient), nil
		}
		if step%256 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, 0, err
			}
			if start == 0 {
				start = gap
			}
			if start > tolerance {
				progress(min(max(math.Log(start/gap)/math.Log(start/tolerance), 0), 1))
			}
		}
		ki, kj := rows.Row(m, i), rows.Row(m, j)
		move := (gradient[j] - gradient[i]) / curvature(ki[j])
		move = min(move, 1-alpha[i], alpha[j])
		// Coefficients at a bound must equal it exactly, because only free coefficients
		// determine the offset.
		atUpper, atLower := move == 1-alpha[i], move == alpha[j]
		alpha[i] += move
		alpha[j] -= move
		if atUpper {
			alpha[i] = 1
		}
		if atLower {
			alpha[j] = 0
		}
		for t := range gradient {
			gradient[t] += move * (float64(ki[t]) - float64(kj[t]))
		}
	}
	return nil, 0, fmt.Errorf("the one-class support vector machine did not converge in %d steps: choose a larger tolerance", maxSteps)
}

// curvature returns the curvature of the objective if one coefficient grows and another
// shrinks by the same amount. kernel is the kernel of their rows.
func curvature(kernel float32) float64 { return max(2-2*float64(kernel), 1e-12) }

// pair returns the coefficient i to increase and the coefficient j to decrease. gap is the
// largest violation of the optimality conditions by any pair. If no pair violates them, i
// and j are −1 and gap is 0.
func pair(m blas32.General, alpha, gradient []float64) (i, j int, gap float64) {
	i, j = -1, -1
	lowest, highest := math.Inf(1), math.Inf(-1)
	for t, g := range gradient {
		if alpha[t] < 1 && g < lowest {
			i, lowest = t, g
		}
		if alpha[t] > 0 {
			highest = max(highest, g)
		}
	}
	if i < 0 || highest <= lowest {
		return -1, -1, 0
	}
	column := rows.Row(m, i)
	best := math.Inf(-1)
	for t, g := range gradient {
		if d := g - lowest; alpha[t] > 0 && d > 0 {
			if gain := d * d / curvature(column[t]); gain > best {
				j, best = t, gain
			}
		}
	}
	return i, j, highest - lowest
}

// offset returns ρ, the mean gradient of free coefficients. If no coefficient is free, it
// returns a value between the gradients of coefficients at the upper and the lower bound.
func offset(alpha, gradient []float64) float64 {
	var sum, free float64
	low, high := math.Inf(-1), math.Inf(1)
	for t, g := range gradient {
		switch alpha[t] {
		case 1:
			low = max(low, g)
		case 0:
			high = min(high, g)
		default:
			sum += g
			free++
		}
	}
	switch {
	case free > 0:
		return sum / free
	case math.IsInf(low, 0):
		return high
	case math.IsInf(high, 0):
		return low
	}
	return (low + high) / 2
}
