package baselines

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// smoSteps bounds the steps taken; each changes two coefficients.
const smoSteps = 10_000_000

// solveOneClass minimises αᵀKα/2 with 0 ≤ α ≤ 1 and Σα = nu·n, until no pair
// of coefficients violates the conditions of optimality by tolerance, and
// returns α and the offset ρ.
//
// Pairs are chosen by second-order information: Fan, Chen & Lin 2005, working
// set selection 2, as in LIBSVM.
func solveOneClass(ctx context.Context, k gaussianRows, nu, tolerance float64, progress func(float64)) (alpha []float64, rho float64, err error) {
	n := k.rows.Rows
	alpha = make([]float64, n)
	left := nu * float64(n)
	for i := range alpha {
		alpha[i] = min(1, left)
		left -= alpha[i]
		if left <= 0 {
			break
		}
	}
	columns := newKernelColumns(k)
	gradient, err := columns.product(ctx, alpha)
	if err != nil {
		return nil, 0, err
	}
	start := 0.
	for step := range smoSteps {
		i, j, gap := columns.pair(alpha, gradient)
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
		ki := columns.of(i)
		kj := columns.of(j)
		move := (gradient[j] - gradient[i]) / curvature(ki[j])
		move = min(move, 1-alpha[i], alpha[j])
		// At a bound, exactly: what is free decides the offset.
		full, empty := move == 1-alpha[i], move == alpha[j]
		alpha[i] += move
		alpha[j] -= move
		if full {
			alpha[i] = 1
		}
		if empty {
			alpha[j] = 0
		}
		for t := range gradient {
			gradient[t] += move * (float64(ki[t]) - float64(kj[t]))
		}
	}
	return nil, 0, fmt.Errorf("the one-class support vector machine did not converge in %d steps: choose a larger tolerance", smoSteps)
}

// curvature is that along the direction in which one coefficient grows as
// another shrinks.
func curvature(kernel float32) float64 { return max(2-2*float64(kernel), 1e-12) }

// pair is the coefficient i to raise and j to lower, and by how much the worst
// pair violates the conditions.
func (c *kernelColumns) pair(alpha, gradient []float64) (i, j int, gap float64) {
	i, j = -1, -1
	least, most := math.Inf(1), math.Inf(-1)
	for t, g := range gradient {
		if alpha[t] < 1 && g < least {
			i, least = t, g
		}
		if alpha[t] > 0 {
			most = max(most, g)
		}
	}
	if i < 0 || most <= least {
		return -1, -1, 0
	}
	column := c.of(i)
	best := math.Inf(-1)
	for t, g := range gradient {
		if d := g - least; alpha[t] > 0 && d > 0 {
			if gain := d * d / curvature(column[t]); gain > best {
				j, best = t, gain
			}
		}
	}
	return i, j, most - least
}

// offset is ρ: the gradient where coefficients are free, or between those that
// are at their bounds.
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

// kernelRoom bounds the columns of the kernel matrix that are kept, 256 MB of
// them.
const kernelRoom = 64 << 20

// kernelColumns are columns of the kernel matrix, the latest ones kept.
type kernelColumns struct {
	gaussianRows
	columns [][]float32
	held    []int // columns kept, in the order they came
	next    int   // of held, to be given up first
}

func newKernelColumns(k gaussianRows) *kernelColumns {
	n := k.rows.Rows
	return &kernelColumns{gaussianRows: k, columns: make([][]float32, n), held: make([]int, 0, max(4, min(n, kernelRoom/n)))}
}

// of is column i.
func (c *kernelColumns) of(i int) []float32 {
	if c.columns[i] != nil {
		return c.columns[i]
	}
	column := make([]float32, c.rows.Rows)
	if len(c.held) < cap(c.held) {
		c.held = append(c.held, i)
	} else {
		c.columns[c.held[c.next]] = nil
		c.held[c.next] = i
		c.next = (c.next + 1) % len(c.held)
	}
	h := c.rows.Cols
	products := make([]float64, c.rows.Rows)
	blas64.Gemv(blas.NoTrans, 1, c.rows, vector64(c.rows.Data[i*h:(i+1)*h]), 0, vector64(products))
	for t, p := range products {
		column[t] = float32(c.kernel(t, p, c.squares[i]))
	}
	c.columns[i] = column
	return column
}

// product is Kα.
func (c *kernelColumns) product(ctx context.Context, alpha []float64) ([]float64, error) {
	sum := make([]float64, len(alpha))
	for i, a := range alpha {
		if a == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for t, v := range c.of(i) {
			sum[t] += a * float64(v)
		}
	}
	return sum, nil
}
