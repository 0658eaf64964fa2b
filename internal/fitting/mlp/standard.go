// Package mlp trains small feed-forward networks for regression. attach's own interval models
// and those in baselines use it.
package mlp

import (
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Standard is an affine map of columns to mean 0 and standard deviation 1.
type Standard struct {
	Mean  []float64 `state:"mean[c]"`
	Scale []float64 `state:"scale[c],positive"`
}

// NewStandard fits a Standard to the columns of m, in two passes and with denominator n.
// Constant columns get scale 1, and their indices are returned.
func NewStandard(m blas32.General) (s Standard, constant []int) {
	s = Standard{Mean: make([]float64, m.Cols), Scale: make([]float64, m.Cols)}
	n := float64(m.Rows)
	for i := range m.Rows {
		for j, v := range rows.Row(m, i) {
			s.Mean[j] += float64(v) / n
		}
	}
	for i := range m.Rows {
		for j, v := range rows.Row(m, i) {
			d := float64(v) - s.Mean[j]
			s.Scale[j] += d * d / n
		}
	}
	for j, v := range s.Scale {
		sd := math.Sqrt(v)
		// Rounding gives even equal values a small standard deviation.
		if sd <= 1e-12*math.Abs(s.Mean[j]) || sd == 0 {
			sd = 1
			constant = append(constant, j)
		}
		s.Scale[j] = sd
	}
	return s, constant
}

// Apply writes (row − Mean)/Scale for the rows of m to dst, which must have
// m's shape.
func (s Standard) Apply(dst, m blas32.General) {
	for i := range m.Rows {
		out := rows.Row(dst, i)
		for j, v := range rows.Row(m, i) {
			out[j] = float32((float64(v) - s.Mean[j]) / s.Scale[j])
		}
	}
}

// standardised returns a standardised copy of m.
func (s Standard) standardised(m blas32.General) blas32.General {
	out := rows.New(m.Rows, m.Cols)
	s.Apply(out, m)
	return out
}
