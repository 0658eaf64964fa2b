package calibrate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

func mustConformal(t *testing.T, scores ...float64) Conformal {
	t.Helper()
	c, err := NewConformal(scores)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPValue(t *testing.T) {
	c := mustConformal(t, 3, 1, 2, 2)
	for _, tt := range []struct{ score, want float64 }{
		{0, 1}, {1, 1}, {1.5, 0.8}, {2, 0.8}, {2.5, 0.4}, {3, 0.4}, {4, 0.2}, {math.Inf(1), 0.2}, {math.Inf(-1), 1},
	} {
		if got := c.PValue(tt.score); got != tt.want {
			t.Errorf("p-value of %v is %v, want %v", tt.score, got, tt.want)
		}
	}
	if p := c.PValue(math.NaN()); p != 1/float64(len(c.Scores)+1) {
		t.Errorf("p-value of NaN is %v, want the smallest one", p)
	}
	if p := (Conformal{}).PValue(0); p != 1 {
		t.Errorf("p-value without calibration rows is %v, want 1", p)
	}
}

func TestThreshold(t *testing.T) {
	c := mustConformal(t, 9, 8, 7, 6, 5, 4, 3, 2, 1)
	for _, tt := range []struct{ alpha, want float64 }{
		{0, math.Inf(1)}, {0.0999, math.Inf(1)}, {0.1, 9}, {0.19, 9}, {0.2, 8}, {0.3, 7},
		{0.5, 5}, {0.7, 3}, {0.9, 1}, {0.95, 1}, {1, math.Inf(-1)},
	} {
		if got := c.Threshold(tt.alpha); got != tt.want {
			t.Errorf("threshold at %v is %v, want %v", tt.alpha, got, tt.want)
		}
	}
}

// TestThresholdAndPValueAgree checks that a score is above the threshold exactly if its
// p-value is at most α. Scores have ties. Values of α are equal to the possible p-values, next
// to them and between them.
func TestThresholdAndPValueAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 60 {
		scores := make([]float64, n)
		for i := range scores {
			scores[i] = float64(rng.IntN(12)) / 3
		}
		c := mustConformal(t, scores...)
		for m := range n + 2 {
			p := float64(m) / float64(n+1)
			for _, alpha := range []float64{p, math.Nextafter(p, 0), math.Nextafter(p, 2), 1 - (1 - p), p * 0.999, rng.Float64()} {
				limit := c.Threshold(alpha)
				for s := -1.0; s < 6; s += 1. / 6 {
					above, extreme := s > limit, c.PValue(s) <= alpha
					if above != extreme {
						t.Fatalf("n=%d α=%v s=%v: above threshold %v, p ≤ α %v", n, alpha, s, above, extreme)
					}
				}
			}
		}
	}
}

func TestConformalNaN(t *testing.T) {
	if _, err := NewConformal([]float64{1, math.NaN()}); err == nil {
		t.Error("NaN was accepted")
	}
}

// TestFalseAlarmRate checks the distribution of the coverage 1 − (false-alarm rate) over
// calibration sets. It is Beta(k, n+1−k) with k = ⌈(1−α)(n+1)⌉ for n calibration rows.
func TestFalseAlarmRate(t *testing.T) {
	const repeats = 4000
	rng := rand.New(rand.NewPCG(3, 4))
	for _, tt := range []struct {
		n     int
		alpha float64
	}{{9, 0.1}, {39, 0.1}, {99, 0.05}, {30, 0.2}} {
		c := Conformal{}
		var mean, square float64
		for range repeats {
			scores := make([]float64, tt.n)
			for i := range scores {
				scores[i] = rng.Float64()
			}
			c = mustConformal(t, scores...)
			// Scores are uniform, so the coverage equals the threshold.
			limit := c.Threshold(tt.alpha)
			mean += limit / repeats
			square += limit * limit / repeats
		}
		k := math.Ceil((1-tt.alpha)*float64(tt.n+1) - 1e-9)
		total := float64(tt.n + 1)
		want := k / total
		variance := k * (total - k) / (total * total * (total + 1))
		if se := math.Sqrt(variance / repeats); math.Abs(mean-want) > 4*se {
			t.Errorf("n=%d α=%v: mean coverage %v, want %v ± %v", tt.n, tt.alpha, mean, want, 4*se)
		}
		if got := square - mean*mean; math.Abs(got/variance-1) > 0.15 {
			t.Errorf("n=%d α=%v: variance of coverage %v, want %v", tt.n, tt.alpha, got, variance)
		}
		if got := hypothesis.ExpectedCoverage(tt.n, tt.alpha); math.Abs(got-want) > 1e-15 {
			t.Errorf("n=%d α=%v: expected coverage %v, want %v", tt.n, tt.alpha, got, want)
		}
	}
}

// TestLeastRows checks that LeastRows returns the smallest number of rows whose smallest
// p-value is at most α. Values of α are equal to the possible p-values and next to them.
func TestLeastRows(t *testing.T) {
	for n := range 3000 {
		alpha := 1 / float64(n+1)
		if got := hypothesis.LeastRows(alpha); got != n {
			t.Errorf("least rows at 1/%d are %d, want %d", n+1, got, n)
		}
		if got := hypothesis.LeastRows(math.Nextafter(alpha, 0)); got != n+1 {
			t.Errorf("least rows just below 1/%d are %d, want %d", n+1, got, n+1)
		}
	}
	for alpha, want := range map[float64]int{.05: 19, .001: 999, 1e-9: 999999999, 2: 0, 1e-300: math.MaxInt, 0: math.MaxInt} {
		if got := hypothesis.LeastRows(alpha); got != want {
			t.Errorf("least rows at %v are %d, want %d", alpha, got, want)
		}
	}
}
