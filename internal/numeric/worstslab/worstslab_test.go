package worstslab

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// TestLowestRange compares lowestRange with a search of all ranges.
func TestLowestRange(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for trial := range 300 {
		n, minRows := 20+rng.IntN(60), 3+rng.IntN(15)
		prefix := make([]int, n+1)
		for i := range n {
			prefix[i+1] = prefix[i]
			if rng.Float64() < .8 {
				prefix[i+1]++
			}
		}
		want := math.Inf(1)
		for from := range n {
			for to := from + minRows; to <= n; to++ {
				want = min(want, float64(prefix[to]-prefix[from])/float64(to-from))
			}
		}
		from, to, fraction := lowestRange(prefix, minRows, math.Inf(1))
		if to-from < minRows && want < 1 || math.Abs(fraction-want) > 1e-12 || to > 0 && float64(prefix[to]-prefix[from])/float64(to-from) != fraction {
			t.Fatalf("trial %d: rows %d to %d with %v, want %v", trial, from, to, fraction, want)
		}
		if _, to, fraction := lowestRange(prefix, minRows, want); to != 0 || fraction != want {
			t.Fatalf("trial %d: a range with %v is found below %v", trial, fraction, want)
		}
	}
}

// TestWorstFindsASlab checks that Worst finds rows with low coverage beyond a plane that is
// oblique to two columns.
func TestWorstFindsASlab(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	const n = 4000
	x := rows.New(n, 3)
	planted, uniform, everywhere := make([]bool, n), make([]bool, n), make([]bool, n)
	for i := range n {
		for j := range 3 {
			x.Data[3*i+j] = float32(100*float64(j) + rng.NormFloat64()*math.Pow(10, float64(j)))
		}
		low := x.Data[3*i]+x.Data[3*i+1]/10-10 > 1.2
		planted[i] = rng.Float64() < map[bool]float64{true: .5, false: .95}[low]
		uniform[i], everywhere[i] = rng.Float64() < .9, true
	}
	got := Worst(t.Context(), x, [][]bool{planted, uniform, everywhere}, 7)
	fraction := func(s Slab) float64 { return float64(s.Covered) / float64(s.Rows) }
	if got[0].Rows < 150 || fraction(got[0]) > .6 {
		t.Errorf("planted slab: %+v", got[0])
	}
	if math.Abs(fraction(got[1])-.9) > .07 {
		t.Errorf("equal coverage everywhere: %+v", got[1])
	}
	if got[2].Rows != n/2 || got[2].Covered != n/2 {
		t.Errorf("all rows covered: %+v", got[2])
	}
	again := Worst(t.Context(), x, [][]bool{planted}, 7)
	if again[0] != got[0] {
		t.Errorf("%+v and then %+v", got[0], again[0])
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if got := Worst(ended, x, [][]bool{planted}, 7); got != nil {
		t.Errorf("ended context: %v", got)
	}
	if few := Worst(t.Context(), rows.New(19, 3), [][]bool{make([]bool, 19)}, 1); few != nil {
		t.Errorf("19 rows: %+v", few)
	}
}
