package featurize

import "testing"

// TestApart: a difference is a share of the row's largest number, and where that is 0
// of 1, for no share of 0 is finite.
func TestApart(t *testing.T) {
	for _, tt := range []struct {
		got, bundle []float32
		want        float64
	}{
		{[]float32{1, 2}, []float32{1, 4}, .5},
		{[]float32{0, .25}, []float32{0, 0}, .25},
		{[]float32{0, 0}, []float32{0, 0}, 0},
	} {
		if got := apart(tt.got, tt.bundle); got != tt.want {
			t.Errorf("%v from %v: %v, want %v", tt.got, tt.bundle, got, tt.want)
		}
	}
}
