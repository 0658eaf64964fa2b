package evaluate

import (
	"math"
	"testing"
)

// TestReservoir checks that the sample is not too large, that each row has its own features,
// and that all rows are equally likely.
func TestReservoir(t *testing.T) {
	r := newReservoir(1)
	const n = 5 * mostSlabRows
	for i := range n {
		r.add([]float32{float32(i), -float32(i)})
	}
	if len(r.rows) != mostSlabRows || len(r.x) != 2*mostSlabRows {
		t.Fatalf("%d rows, %d numbers", len(r.rows), len(r.x))
	}
	late := 0
	for k, i := range r.rows {
		if r.x[2*k] != float32(i) || r.x[2*k+1] != -float32(i) {
			t.Fatalf("row %d has the features of another", i)
		}
		if i >= n/2 {
			late++
		}
	}
	if d := math.Abs(float64(late) - mostSlabRows/2); d > 4*math.Sqrt(mostSlabRows/4) {
		t.Errorf("%d of the rows kept are of the second half", late)
	}
}
