package quantile

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSelect(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, generate := range map[string]func(i, n int) float64{
		"random":   func(int, int) float64 { return r.NormFloat64() },
		"rising":   func(i, _ int) float64 { return float64(i) },
		"falling":  func(i, _ int) float64 { return -float64(i) },
		"constant": func(int, int) float64 { return 3 },
		"binary":   func(int, int) float64 { return float64(r.IntN(2)) },
		"roof":     func(i, n int) float64 { return float64(min(i, n-i)) },
	} {
		for _, n := range []int{1, 2, 16, 17, 100, 1001} {
			x := slices.Repeat([]float64{0}, n)
			for i := range x {
				x[i] = generate(i, n)
			}
			want := slices.Sorted(slices.Values(x))
			// Each selection starts from the order that the previous one left.
			for _, k := range []int{0, n / 100, n / 2, n/2 + 1, n - 1, 0} {
				k = min(k, n-1)
				if got := Select(x, k); got != want[k] || x[k] != want[k] {
					t.Fatalf("%s: element %d of %d is %v, want %v", name, k, n, got, want[k])
				}
				if (k > 0 && slices.Max(x[:k]) > want[k]) || slices.Min(x[k:]) < want[k] {
					t.Fatalf("%s: %d of %d is out of order", name, k, n)
				}
			}
			if slices.Sort(x); !slices.Equal(x, want) {
				t.Fatalf("%s: elements got lost", name)
			}
		}
	}
}
