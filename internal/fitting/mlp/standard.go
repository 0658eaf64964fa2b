// Package mlp trains small feed-forward networks for regression. The interval models of
// packages heads and baselines use it.
package mlp

import (
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Standard maps each column to mean 0 and standard deviation 1.
type Standard struct {
	Mean  []float64 `state:"mean[c]"`
	Scale []float64 `state:"scale[c],positive"`
}

// NewStandard fits a Standard to the columns of m. The standard deviation has the
// denominator n, the number of rows. Constant columns get scale 1, and NewStandard returns
// their indices.
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
		// Because of rounding, even a constant column can have a small standard deviation.
		if sd <= 1e-12*math.Abs(s.Mean[j]) || sd == 0 {
			sd = 1
			constant = append(constant, j)
		}
		s.Scale[j] = sd
	}
	return s, constant
}

// Apply writes (row − Mean)/Scale for each row of m to dst, which must have the shape of m.
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
