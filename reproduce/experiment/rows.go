package experiment

import (
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"
)

// Split holds row indices. A tenth of all rows is for testing. A fifth of the remaining
// rows is for calibration, and the rest is for fitting.
type Split struct{ Fit, Cal, Test []int }

// SplitRows splits n rows at random.
func SplitRows(n int, seed uint64) Split {
	order := rand.New(rand.NewPCG(seed, 0)).Perm(n)
	test, remaining := order[:n/10], order[n/10:]
	cal := len(remaining) / 5
	return Split{Fit: remaining[cal:], Cal: remaining[:cal], Test: test}
}

// Column returns the first column of m.
func Column(m blas32.General) []float64 {
	out := make([]float64, m.Rows)
	for i := range out {
		out[i] = float64(m.Data[i*m.Stride])
	}
	return out
}

// AsColumn returns v as a matrix of one column.
func AsColumn(v []float64) blas32.General {
	m := rows.New(len(v), 1)
	for i, x := range v {
		m.Data[i] = float32(x)
	}
	return m
}

// Standardised returns m with columns of mean 0 and standard deviation 1.
func Standardised(m blas32.General) blas32.General {
	out := rows.New(m.Rows, m.Cols)
	standard, _ := mlp.NewStandard(m)
	standard.Apply(out, m)
	return out
}

// Indices returns the integers from 0 to n−1.
func Indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// Values applies value to each result.
func Values[T any](results []T, value func(T) float64) []float64 {
	out := make([]float64, len(results))
	for i, r := range results {
		out[i] = value(r)
	}
	return out
}

// Indicator returns 1 for true and 0 for false.
func Indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
