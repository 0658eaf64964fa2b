package evaluate

import (
	"math"
	"testing"
)

// TestReservoir checks that the sample has a limited size, that each sampled row has its own
// features, and that early and late rows are equally likely to be sampled.
func TestReservoir(t *testing.T) {
	r := newReservoir(1)
	const n = 5 * maxSlabRows
	for i := range n {
		r.add([]float32{float32(i), -float32(i)})
	}
	if len(r.rows) != maxSlabRows || len(r.x) != 2*maxSlabRows {
		t.Fatalf("%d rows, %d numbers", len(r.rows), len(r.x))
	}
	fromSecondHalf := 0
	for k, i := range r.rows {
		if r.x[2*k] != float32(i) || r.x[2*k+1] != -float32(i) {
			t.Fatalf("row %d has the features of another", i)
		}
		if i >= n/2 {
			fromSecondHalf++
		}
	}
	if d := math.Abs(float64(fromSecondHalf) - maxSlabRows/2); d > 4*math.Sqrt(maxSlabRows/4) {
		t.Errorf("%d of the rows kept are of the second half", fromSecondHalf)
	}
}
