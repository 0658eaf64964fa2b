package rows

import (
	"math"

	"gonum.org/v1/gonum/blas/blas32"
)

// Scaling standardizes columns to mean 0 and standard deviation 1. NaN marks an empty cell,
// which is scaled to 0, as if it were the mean.
type Scaling struct {
	Mean      []float64 `state:"mean[features]"`              // of each column
	Deviation []float64 `state:"deviation[features],least=0"` // 0 for a constant column
}

// NewScaling returns the scaling for the columns of m, which must have at least one row.
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
		// Because of rounding, the computed mean of a constant column can differ slightly
		// from its numbers.
		if s.Deviation[j] = math.Sqrt(v); s.Deviation[j] <= 1e-7*math.Abs(s.Mean[j]) {
			s.Deviation[j] = 0
		}
	}
	return s
}

// Apply returns a scaled copy of m. Constant columns become 0. A scaling without columns
// returns m itself.
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

// Layer converts a layer wx + b, which reads unscaled rows x, to an equivalent layer for
// scaled rows. w is c×h for c outputs and h features.
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
