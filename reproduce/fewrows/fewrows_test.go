package fewrows

import (
	"math"
	"math/rand/v2"
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
