package evaluate

import (
	"slices"
	"testing"
)

// TestDecileNames checks that the names of neighbouring deciles differ, and that large numbers
// such as prices and years are easy to read.
func TestDecileNames(t *testing.T) {
	evenly := func(low, step float64) []float64 {
		x := make([]float64, 100)
		for i := range x {
			x[i] = low + step*float64(i)
		}
		return x
	}
	for _, c := range []struct {
		x     []float64
		first string
	}{
		{evenly(1093, 64), "1,090 to 1,730"},
		{evenly(22400, 5000), "22,400 to 72,400"},
		{evenly(1990, .3), "1,990 to 1,993"},
		{evenly(0, .01), "0 to 0.1"},
		{evenly(5e8, 1e7), "5e8 to 6e8"},
		{evenly(-5e6, 2e5), "-5e6 to -3e6"},
		{evenly(1e6, 1e-3), "1,000,000 to 1,000,000.01"},
	} {
		names := deciles(c.x).names
		if names[0] != c.first {
			t.Errorf("the first decile is %q, want %q", names[0], c.first)
		}
		slices.Sort(names)
		if len(slices.Compact(names)) != 10 {
			t.Errorf("ten deciles are called %q", names)
		}
	}
}
