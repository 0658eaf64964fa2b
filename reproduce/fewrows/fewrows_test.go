package fewrows

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/calibrate"
)

// TestLeastHighest compares the rate of the procedure with simulated ranks, at its smallest
// number of rows and at one less, for the worst constant number of outliers.
func TestLeastHighest(t *testing.T) {
	const n, rows, draws = 20, 200, 100000
	k := leastHighest(n, rows, rate)
	if bh := int(math.Ceil(rows / (rate * (n + 1)))); k >= bh || k < bh/2 {
		t.Errorf("at least %d rows, but Benjamini and Hochberg's procedure needs %d", k, bh)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	worst := func(k int) (highest float64) {
		for s := k / 2; s <= k; s++ {
			sum := 0.
			for range draws {
				// A random order of inliers and calibration rows, from the highest score.
				v, left := 0, rows-s
				for left > 0 && rng.IntN(left+n) < left {
					v, left = v+1, left-1
				}
				if v > 0 && v+s >= k {
					sum += float64(v) / float64(v+s) / draws
				}
			}
			highest = max(highest, sum)
		}
		return highest
	}
	const noise = .002
	if r := worst(k); r > rate+noise {
		t.Errorf("at least %d rows: rate %v", k, r)
	}
	if r := worst(k - 3); r < rate {
		t.Errorf("at least %d rows: rate %v, so this number is large enough too", k-3, r)
	}
}

// TestMeasure checks rates and powers on normal scores, if the outliers are more than Benjamini
// and Hochberg's procedure needs.
func TestMeasure(t *testing.T) {
	c := &cell{n: 200, audited: 1000, outliers: 100}
	if err := c.measure(normal(8), 200, 0); err != nil {
		t.Fatal(err)
	}
	for _, f := range c.tallies {
		if f.mean() > rate+3*f.stderr() || f.mean() == 0 {
			t.Errorf("%s: rate %v", f.procedure, f.mean())
		}
		if f.power(c.outliers) < .9 {
			t.Errorf("%s discovers %v", f.procedure, f.power(c.outliers))
		}
	}
	if c.violated > .15 || c.bounded < .5 || c.bounded > 1 {
		t.Errorf("the bound is violated in %v of draws and finds %v", c.violated, c.bounded)
	}
}

// TestSmoothedDiscoveries checks that only smoothed p-values can discover a single row, and that
// they do so in a fraction rate·(n+1)/m of draws.
func TestSmoothedDiscoveries(t *testing.T) {
	inliers, all := calibrate.NewRanks(9), calibrate.NewRanks(9)
	inliers[9], all[9], all[0] = 19, 19, 1
	rng := rand.New(rand.NewPCG(1, 1))
	const draws = 20000
	count := 0
	for range draws {
		found, falsely := smoothedDiscoveries(rng, inliers, all)
		if falsely > 0 || found > 1 {
			t.Fatalf("%d discoveries, %d of these false", found, falsely)
		}
		count += found
	}
	if got, want := float64(count)/draws, rate*10/20; math.Abs(got-want) > .006 {
		t.Errorf("discovered in %v of draws, not in %v", got, want)
	}
}

// TestSummarise checks a summary of two cells. Only the first has at most half as many outliers
// as the first procedure needs.
func TestSummarise(t *testing.T) {
	few := &cell{outliers: 10, tallies: []*tally{
		{procedure: "BH", falseFractions: []float64{0, 0, 0, 0}, least: 20},
		{procedure: "other", falseFractions: []float64{.2, 0, .4, 0}, trueDiscoveries: 10, any: 3, least: 10},
	}}
	many := &cell{outliers: 11, tallies: []*tally{
		{procedure: "BH", falseFractions: []float64{.1, .1, .1, .1}, trueDiscoveries: 44, any: 4, least: 20},
		{procedure: "other", falseFractions: []float64{0, 0, 0, 0}, trueDiscoveries: 33, any: 4, least: 15},
	}}
	var out strings.Builder
	summarise(&out, []*cell{few, many})
	want := `BH: power +0.00 to +0.00 relative to BH, smallest number 1.00 to 1.00 of that of BH
other: power -0.25 to +0.25 relative to BH, smallest number 0.50 to 0.75 of that of BH
  with at most half as many outliers as BH needs (1 of 2 settings): 3 to 3 draws with discoveries, 0.20 to 0.20 of these false
false discoveries within the rate, or two standard errors above: 4 of 4
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
}
