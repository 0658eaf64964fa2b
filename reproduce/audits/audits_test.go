package audits

import (
	"math/rand/v2"
	"testing"
)

// TestMeasure checks the fraction of false discoveries, the power and the bounds on normal
// scores. It also checks that draws do not repeat rows.
func TestMeasure(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	normal := func(rows int, shift float64) []float64 {
		scores := make([]float64, rows)
		for i := range scores {
			scores[i] = shift + rng.NormFloat64()
		}
		return scores
	}
	pool := Pool{Name: "made", In: normal(4000, 0), Out: normal(500, 8)}
	c, err := pool.measure(1000, 400, 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range c.discoveries {
		if fraction := f.falseFraction(); fraction > f.rate+3*f.stderr() || fraction < f.rate/2 {
			t.Errorf("%s at %v: share %v of false discoveries", f.procedure, f.rate, fraction)
		}
		if power := f.power(c.outliers); power != 1 {
			t.Errorf("%s at %v discovers %v of outliers that score above all others", f.procedure, f.rate, power)
		}
	}
	if c.boundViolations > .2 || c.outlierBoundViolations > c.boundViolations || c.boundedFraction < .9 || c.boundedFraction > 1.1 {
		t.Errorf("bounds are violated in %v of draws, that of outliers in %v, which finds %v of them", c.boundViolations, c.outlierBoundViolations, c.boundedFraction)
	}
	cal, in, out := pool.draw(rng, 1000, 400)
	if len(cal) != 1000 || len(in) != auditedRows-400 || len(out) != 400 {
		t.Errorf("%d rows to calibrate on, %d inliers and %d outliers are drawn", len(cal), len(in), len(out))
	}
	seen := map[float64]int{}
	for _, score := range append(append(cal, in...), out...) {
		if seen[score]++; seen[score] > 1 {
			t.Fatalf("the row with score %v is drawn twice", score)
		}
	}
}
