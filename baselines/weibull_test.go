package baselines

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// TestFitWeibull checks that parameters near the fitted ones do not have a higher
// likelihood. It also compares probabilities with the distribution of gonum.
func TestFitWeibull(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, spread := range []float64{1e-6, 1, 100} {
		numbers := make([]float64, 200)
		for i := range numbers {
			numbers[i] = spread * math.Abs(rng.NormFloat64())
		}
		tail := fitWeibull(numbers, 25)
		top := slices.Clone(numbers[175:])
		scale := tail.shiftedLargest * math.Exp(-tail.ratio/tail.shape)
		likelihood := func(k, scale float64) float64 {
			var sum float64
			for _, v := range top {
				// This is the log density without its large constant terms, because
				// rounding would otherwise hide the differences.
				u := math.Log1p((v-tail.largest)/tail.shiftedLargest) + math.Log(tail.shiftedLargest/scale)
				sum += math.Log(k) + k*u - math.Exp(k*u)
			}
			return sum
		}
		best := likelihood(tail.shape, scale)
		for _, k := range []float64{.99, 1.01} {
			for _, s := range []float64{-.02, 0, .02} {
				// The step of the scale is small if the tail is narrow, that is, if the
				// shape is large.
				if other := likelihood(k*tail.shape, scale*(1+s/tail.shape)); other > best+1e-6 {
					t.Errorf("spread %v: shape %.6g times %v and scale moved by %v are likelier", spread, tail.shape, k, s)
				}
			}
		}
		w := distuv.Weibull{K: tail.shape, Lambda: scale}
		for _, v := range []float64{0, top[0], top[12], top[24], 2 * top[24]} {
			want := w.CDF(v + minShifted - top[0])
			if got := tail.probability(v); math.Abs(got-want) > 1e-6 {
				t.Errorf("spread %v: probability %v at %v, want %v", spread, got, v, want)
			}
		}
	}
}

func TestWeibullOfFewNumbers(t *testing.T) {
	if p := fitWeibull(nil, 5).probability(3); p != 1 {
		t.Errorf("without numbers: %v", p)
	}
	for _, numbers := range [][]float64{{0}, {7, 7, 7}, {7, 7 + 1e-12}} {
		tail := fitWeibull(numbers, 20)
		if below, above := tail.probability(numbers[0]-.1), tail.probability(numbers[0]+.1); below != 0 || above != 1 {
			t.Errorf("%v: %v just below them, %v just above", numbers, below, above)
		}
		if p := tail.probability(-1e6); p != 0 {
			t.Errorf("%v: %v far below", numbers, p)
		}
		if !math.IsNaN(tail.probability(math.NaN())) {
			t.Errorf("%v: a probability of NaN", numbers)
		}
	}
}
