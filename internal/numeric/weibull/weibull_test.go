package weibull

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// TestFit looks for parameters of higher likelihood near those found.
func TestFit(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, spread := range []float64{1e-6, 1, 100} {
		numbers := make([]float64, 200)
		for i := range numbers {
			numbers[i] = spread * math.Abs(rng.NormFloat64())
		}
		tail := Fit(numbers, 25)
		top := slices.Clone(numbers[175:])
		scale := tail.At * math.Exp(-tail.Ratio/tail.Shape)
		likelihood := func(k, scale float64) float64 {
			var sum float64
			for _, v := range top {
				// The mean of log density, less what rounding would drown.
				u := math.Log1p((v-tail.Largest)/tail.At) + math.Log(tail.At/scale)
				sum += math.Log(k) + k*u - math.Exp(k*u)
			}
			return sum
		}
		best := likelihood(tail.Shape, scale)
		for _, k := range []float64{.99, 1.01} {
			for _, s := range []float64{-.02, 0, .02} {
				// The scale moves by parts of what the tail is wide.
				if other := likelihood(k*tail.Shape, scale*(1+s/tail.Shape)); other > best+1e-6 {
					t.Errorf("spread %v: shape %.6g times %v and scale moved by %v are likelier", spread, tail.Shape, k, s)
				}
			}
		}
		w := distuv.Weibull{K: tail.Shape, Lambda: scale}
		for _, v := range []float64{0, top[0], top[12], top[24], 2 * top[24]} {
			want := w.CDF(v + translation - top[0])
			if got := tail.Probability(v); math.Abs(got-want) > 1e-6 {
				t.Errorf("spread %v: probability %v at %v, want %v", spread, got, v, want)
			}
		}
	}
}

func TestFitOfFewNumbers(t *testing.T) {
	if p := Fit(nil, 5).Probability(3); p != 1 {
		t.Errorf("without numbers: %v", p)
	}
	for _, numbers := range [][]float64{{0}, {7, 7, 7}, {7, 7 + 1e-12}} {
		tail := Fit(numbers, 20)
		if below, above := tail.Probability(numbers[0]-.1), tail.Probability(numbers[0]+.1); below != 0 || above != 1 {
			t.Errorf("%v: %v just below them, %v just above", numbers, below, above)
		}
		if p := tail.Probability(-1e6); p != 0 {
			t.Errorf("%v: %v far below", numbers, p)
		}
		if !math.IsNaN(tail.Probability(math.NaN())) {
			t.Errorf("%v: a probability of NaN", numbers)
		}
	}
}
