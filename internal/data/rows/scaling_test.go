package rows_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// TestScaling checks that scaled columns have mean 0 and deviation 1, that constant columns
// become 0, and that huge numbers do not overflow. It also checks that a converted layer
// gives the same result.
func TestScaling(t *testing.T) {
	m := blas32.General{Rows: 3, Cols: 3, Stride: 4, Data: []float32{1, .1, 1e38, 9, 2, .1, 2e38, 9, 6, .1, 3e38}}
	s := rows.NewScaling(m)
	z := s.Apply(m)
	for j, want := range []float64{1, 0, 1} {
		mean, square := 0., 0.
		for i := range 3 {
			v := float64(rows.Row(z, i)[j])
			mean += v / 3
			square += v * v / 3
		}
		if math.Abs(mean) > 1e-6 || math.Abs(square-want) > 1e-6 {
			t.Errorf("column %d has mean %v and mean square %v", j, mean, square)
		}
	}
	if far := s.Apply(blas32.General{Rows: 1, Cols: 3, Stride: 3, Data: []float32{-3e38, 5, 0}}); !rows.Finite(far.Data[0]) || far.Data[1] != 0 {
		t.Errorf("a far row becomes %v", far.Data)
	}
	w, b := blas32.General{Rows: 2, Cols: 3, Stride: 3, Data: []float32{1, 2, 1e-38, -1, 0, 2e-38}}, []float32{3, 4}
	sw, sb := s.Layer(w, b)
	for i := range 3 {
		for c := range 2 {
			want, got := b[c], sb[c]
			for j, v := range rows.Row(m, i) {
				want += v * rows.Row(w, c)[j]
				got += rows.Row(z, i)[j] * rows.Row(sw, c)[j]
			}
			if math.Abs(float64(want-got)) > 1e-5 {
				t.Errorf("row %d: output %d is %v, was %v", i, c, got, want)
			}
		}
	}
	if got := (rows.Scaling{}).Apply(m); &got.Data[0] != &m.Data[0] {
		t.Error("an empty scaling copies")
	}
}
