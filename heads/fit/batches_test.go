package fit

import (
	"math"
	"slices"
	"testing"
)

func TestMask(t *testing.T) {
	const n = 200_000
	for _, p := range []float64{0, 0.1, 0.5, 0.75} {
		s := newBatchSource(1, nil, 1)
		s.drawBits(n)
		mask := make([]float32, n)
		s.mask(mask, p)
		dropped := 0
		for _, v := range mask {
			if v == 0 {
				dropped++
			} else if v != float32(1/(1-p)) {
				t.Fatalf("p=%v: a unit that is kept is scaled by %v", p, v)
			}
		}
		if got := float64(dropped) / n; math.Abs(got-p) > 4*math.Sqrt(p*(1-p)/n) {
			t.Errorf("p=%v: %v dropped", p, got)
		}
	}
}

func TestLevels(t *testing.T) {
	const n = 100_000
	s := newBatchSource(3, nil, 1)
	s.drawLevels(n, nil)
	sum, squares := 0.0, 0.0
	for _, v := range s.tau {
		if !(v > 0 && v < 1) {
			t.Fatalf("level %v", v)
		}
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	if mean := sum / n; math.Abs(mean-0.5) > 0.005 {
		t.Errorf("mean %v, want 1/2", mean)
	}
	if second := squares / n; math.Abs(second-1.0/3) > 0.005 {
		t.Errorf("mean square %v, want 1/3", second)
	}
	s.drawLevels(n, []float64{0.25, 0.75})
	half := 0
	for _, v := range s.tau {
		if v == 0.25 {
			half++
		} else if v != 0.75 {
			t.Fatalf("level %v is not of the list", v)
		}
	}
	if math.Abs(float64(half)/n-0.5) > 0.01 {
		t.Errorf("%d of %d have the first level", half, n)
	}
}

func TestShuffle(t *testing.T) {
	s := newBatchSource(1, nil, 100)
	first := slices.Clone(s.perm)
	s.shuffle()
	second := slices.Clone(s.perm)
	s.shuffle()
	if slices.Equal(first, second) || slices.Equal(second, s.perm) {
		t.Error("two epochs have one order")
	}
	sorted := slices.Sorted(slices.Values(s.perm))
	if !slices.Equal(sorted, first) {
		t.Error("an order does not hold each row once")
	}
}
