package featurize

import "testing"

// TestMaxRelativeDiff checks that a difference is relative to the row's largest number, or
// absolute if the row contains only zeros.
func TestMaxRelativeDiff(t *testing.T) {
	for _, tt := range []struct {
		got, bundle []float32
		want        float64
	}{
		{[]float32{1, 2}, []float32{1, 4}, .5},
		{[]float32{0, .25}, []float32{0, 0}, .25},
		{[]float32{0, 0}, []float32{0, 0}, 0},
	} {
		if got := maxRelativeDiff(tt.got, tt.bundle); got != tt.want {
			t.Errorf("%v from %v: %v, want %v", tt.got, tt.bundle, got, tt.want)
		}
	}
}
