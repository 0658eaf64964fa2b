package compare

import (
	"math"
	"slices"
	"testing"
)

func TestSummarise(t *testing.T) {
	// numpy.std([0.5, 0.7, 0.9]) is 0.16329931618554522.
	s := summarise([]float64{.5, .7, .9})
	if math.Abs(s.Mean-.7) > 1e-15 || math.Abs(s.Std-.16329931618554522) > 1e-15 || s.Max != .9 || s.N != 3 {
		t.Errorf("%+v", s)
	}
	if s := summarise(slices.Repeat([]float64{.1}, 7)); s.Std > 1e-16 {
		t.Errorf("equal values deviate by %v", s.Std)
	}
	if summarise(nil) != (Summary{}) {
		t.Error("a summary of no values is not the zero value")
	}
}
