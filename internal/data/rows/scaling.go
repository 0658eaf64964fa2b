package rows

import (
	"math"

	"gonum.org/v1/gonum/blas/blas32"
)

// Scaling takes columns to mean 0 and deviation 1. NaN is a gap, which the mean
// fills.
type Scaling struct {
	Mean      []float64 `state:"mean[features]"`              // by column
	Deviation []float64 `state:"deviation[features],least=0"` // 0 of a constant column
}

// NewScaling is the scaling of the columns of m, which has at least one row.
func NewScaling(m blas32.General) Scaling {
	s := Scaling{Mean: make([]float64, m.Cols), Deviation: make([]float64, m.Cols)}
	count := make([]float64, m.Cols)
	for i := range m.Rows {
		for j, v := range Row(m, i) {
			if v == v {
				count[j]++
				s.Mean[j] += (float64(v) - s.Mean[j]) / count[j]
			}
		}
	}
	for i := range m.Rows {
		for j, v := range Row(m, i) {
			if v == v {
				d := float64(v) - s.Mean[j]
				s.Deviation[j] += d * d / count[j]
			}
		}
	}
	for j, v := range s.Deviation {
		// Rounding alone parts the numbers of a constant column from their mean.
		if s.Deviation[j] = math.Sqrt(v); s.Deviation[j] <= 1e-7*math.Abs(s.Mean[j]) {
			s.Deviation[j] = 0
		}
	}
	return s
}

// Apply is m scaled, in memory of its own; what was constant is 0. A scaling
// without columns leaves m as it is.
func (s Scaling) Apply(m blas32.General) blas32.General {
	if s.Mean == nil {
		return m
	}
	out := New(m.Rows, m.Cols)
	for i := range m.Rows {
		to := Row(out, i)
		for j, v := range Row(m, i) {
			if s.Deviation[j] > 0 && v == v {
				z := (float64(v) - s.Mean[j]) / s.Deviation[j]
				to[j] = float32(max(-math.MaxFloat32, min(math.MaxFloat32, z)))
			}
		}
	}
	return out
}

// Layer is the layer wx + b, w being c×h, as it reads what is scaled.
func (s Scaling) Layer(w blas32.General, b []float32) (blas32.General, []float32) {
	out, bias := New(w.Rows, w.Cols), make([]float32, w.Rows)
	for i := range w.Rows {
		sum := float64(b[i])
		for j, v := range Row(w, i) {
			sum += float64(v) * s.Mean[j]
			Row(out, i)[j] = float32(float64(v) * s.Deviation[j])
		}
		bias[i] = float32(sum)
	}
	return out, bias
}
