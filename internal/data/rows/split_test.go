package rows

import (
	"slices"
	"testing"
)

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		n        int
		fraction float64
		held     int
	}{{0, 0.2, 0}, {1, 0.2, 0}, {2, 0.2, 1}, {3, 0.99, 2}, {10, 0.25, 3}, {100, 1, 100}, {1000, 0.2, 200}} {
		fit, cal := Split(tt.n, tt.fraction, 5)
		if len(cal) != tt.held {
			t.Errorf("split of %d by %v holds out %d, want %d", tt.n, tt.fraction, len(cal), tt.held)
		}
		if !slices.IsSorted(fit) || !slices.IsSorted(cal) {
			t.Errorf("split of %d by %v is not in order", tt.n, tt.fraction)
		}
		all := slices.Sorted(slices.Values(slices.Concat(fit, cal)))
		for i, v := range all {
			if v != i {
				t.Fatalf("split of %d by %v is no partition: %v", tt.n, tt.fraction, all)
			}
		}
		fit2, cal2 := Split(tt.n, tt.fraction, 5)
		if !slices.Equal(fit, fit2) || !slices.Equal(cal, cal2) {
			t.Errorf("split of %d by %v differs between calls", tt.n, tt.fraction)
		}
	}
	_, a := Split(1000, 0.2, 1)
	_, b := Split(1000, 0.2, 2)
	if slices.Equal(a, b) {
		t.Error("seeds 1 and 2 hold out the same rows")
	}
}

// TestFolds checks that every row is in exactly one fold, that folds have similar sizes,
// and that the seed determines the folds.
func TestFolds(t *testing.T) {
	for _, c := range []struct{ n, k, want int }{{0, 5, 0}, {1, 5, 1}, {3, 5, 3}, {5, 5, 5}, {23, 5, 5}, {100, 1, 1}} {
		folds := Folds(c.n, c.k, 4)
		if len(folds) != c.want {
			t.Errorf("%d rows in %d folds: %d of them, want %d", c.n, c.k, len(folds), c.want)
		}
		seen := make([]int, c.n)
		for _, f := range folds {
			if !slices.IsSorted(f) || len(f) < c.n/c.k || len(f) > (c.n+c.k-1)/c.k {
				t.Errorf("%d rows in %d folds: one is %v", c.n, c.k, f)
			}
			for _, r := range f {
				seen[r]++
			}
		}
		if slices.ContainsFunc(seen, func(n int) bool { return n != 1 }) {
			t.Errorf("%d rows in %d folds: %v times", c.n, c.k, seen)
		}
	}
	a, b, other := Folds(30, 5, 1), Folds(30, 5, 1), Folds(30, 5, 2)
	if !slices.EqualFunc(a, b, slices.Equal[[]int]) || slices.EqualFunc(a, other, slices.Equal[[]int]) {
		t.Error("folds do not follow the seed")
	}
}
