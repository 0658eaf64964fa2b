package calibrate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// checkCoverage fails unless the coverage in repeats trials is within four standard errors of
// the expected coverage for n calibration rows.
func checkCoverage(t *testing.T, what string, covered, repeats, n int, alpha float64) {
	t.Helper()
	got, want := float64(covered)/float64(repeats), hypothesis.ExpectedCoverage(n, alpha)
	if se := math.Sqrt(want * (1 - want) / float64(repeats)); math.Abs(got-want) > 4*se {
		t.Errorf("%s, α=%v: coverage %.4f, want %.4f ± %.4f", what, alpha, got, want, 4*se)
	}
}

// drawSkewed draws an input and a target whose spread increases with the input.
func drawSkewed(rng *rand.Rand) (x, y float64) {
	x = rng.Float64()
	return x, x + (0.1+x)*(rng.ExpFloat64()-0.5)
}

// TestByGroupCoverage checks that each group is covered as often as its own number of rows
// guarantees. Groups have different noise, which the predicted quantiles ignore.
func TestByGroupCoverage(t *testing.T) {
	const repeats = 6000
	rng := rand.New(rand.NewPCG(21, 1))
	sizes := []int{12, 39, 7}
	names := []string{"calm", "wild", "rare"}
	noise := []float64{0.1, 3, 1}
	alphas := []float64{0.1, 0.25}
	var groups []string
	for g, n := range sizes {
		for range n {
			groups = append(groups, names[g])
		}
	}
	covered := map[string][]int{"calm": {0, 0}, "wild": {0, 0}, "rare": {0, 0}}
	for range repeats {
		all := QuantileCalibration{Levels: []float64{0.25, 0.75}}
		for _, g := range groups {
			x := rng.Float64()
			all.Grid = append(all.Grid, float32(x-0.2), float32(x+0.1))
			all.Y = append(all.Y, float32(x+noise[slices.Index(names, g)]*rng.NormFloat64()))
		}
		parts := all.ByGroup(groups)
		for g, name := range names {
			x := rng.Float64()
			y := x + noise[g]*rng.NormFloat64()
			for a, alpha := range alphas {
				row := []float32{float32(x - .2), float32(x + .1)}
				if lo, hi := predictInterval(t, parts[name], IntervalOptions{}, row, alpha); lo <= y && y <= hi {
					covered[name][a]++
				}
			}
		}
	}
	for g, name := range names {
		for a, alpha := range alphas {
			checkCoverage(t, name, covered[name][a], repeats, sizes[g], alpha)
		}
	}
}

func TestOneSidedCoverage(t *testing.T) {
	const repeats, n = 6000, 33
	rng := rand.New(rand.NewPCG(22, 1))
	levels := []float64{0.1, 0.3, 0.5, 0.7, 0.9}
	grid := func(x float64) []float32 {
		row := make([]float32, len(levels))
		for l, tau := range levels {
			row[l] = float32(x + 0.3*(tau-0.4))
		}
		return row
	}
	alphas := []float64{0.05, 0.2, 0.4}
	covered := map[string][]int{"lower": make([]int, 3), "upper": make([]int, 3)}
	for range repeats {
		q := QuantileCalibration{Levels: levels}
		for range n {
			x, y := drawSkewed(rng)
			q.Grid, q.Y = append(q.Grid, grid(x)...), append(q.Y, float32(y))
		}
		x, y := drawSkewed(rng)
		y = float64(float32(y))
		for side, count := range covered {
			for a, alpha := range alphas {
				o, err := q.calibrateSide(side, alpha)
				if err != nil {
					t.Fatal(err)
				}
				bound := o.bound(q.quantile(grid(x), sidedLevel(side, alpha)), alpha, 0, 0)
				if side == "lower" && bound <= y || side == "upper" && y <= bound {
					count[a]++
				}
			}
		}
	}
	for side, count := range covered {
		for a, alpha := range alphas {
			checkCoverage(t, string(side), count[a], repeats, n, alpha)
		}
	}
}

// TestJointCoverage checks that three dependent targets with different units are all covered
// with the guaranteed probability. Each single target must be covered more often.
func TestJointCoverage(t *testing.T) {
	const repeats, n, targets, alpha = 6000, 29, 3, 0.2
	rng := rand.New(rand.NewPCG(23, 1))
	units := []float64{1, 100, 0.01}
	fillRow := func(lo, hi, y []float64) {
		x := rng.Float64()
		common := rng.NormFloat64()
		for t := range targets {
			lo[t], hi[t] = units[t]*(x-0.2*(1+x)), units[t]*(x+0.3*(1+x))
			y[t] = units[t] * (x + (0.1+x)*(common+rng.NormFloat64()))
		}
	}
	drawRows := func(n int) (lo, hi, y []float64) {
		lo, hi, y = make([]float64, n*targets), make([]float64, n*targets), make([]float64, n*targets)
		for at := 0; at < n*targets; at += targets {
			fillRow(lo[at:at+targets], hi[at:at+targets], y[at:at+targets])
		}
		return lo, hi, y
	}
	all, first := 0, 0
	for range repeats {
		lo, hi, y := drawRows(n + 1)
		j, err := newJointBox(intervalsByWidth(lo[:n*targets], hi[:n*targets]), y[:n*targets], targets, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, b := boxEnds(j, intervalsByWidth(lo[n*targets:], hi[n*targets:]), alpha, 0)
		inside := 0
		for t, v := range y[n*targets:] {
			if a[t] <= v && v <= b[t] {
				inside++
				if t == 0 {
					first++
				}
			}
		}
		if inside == targets {
			all++
		}
	}
	checkCoverage(t, "box", all, repeats, n, alpha)
	if first <= all {
		t.Errorf("one target is covered %d times and all of them %d times", first, all)
	}
}

// TestPredictiveSystemCoverage checks that Q(Y, τ) with a uniform τ is uniform, and that its
// quantiles cover exactly, with and without ties. The predicted quantiles have a wrong centre
// and spread.
func TestPredictiveSystemCoverage(t *testing.T) {
	const repeats, n = 10000, 24
	rng := rand.New(rand.NewPCG(24, 1))
	levels := []float64{0.25, 0.5, 0.75}
	grid := func(x float64) []float32 { return []float32{float32(x), float32(x + 0.1), float32(x + 0.15)} }
	for name, steps := range map[string]float64{"fine": 1 << 20, "tied": 4} {
		draw := func() (float64, float64) {
			x, y := drawSkewed(rng)
			return math.Round(x*steps) / steps, math.Round(y*steps) / steps
		}
		probabilities := []float64{0.1, 0.5, 0.9, 0.95}
		atMost, below := make([]int, len(probabilities)), make([]int, len(probabilities))
		var pit []float64
		for range repeats {
			q := QuantileCalibration{Levels: levels}
			for range n {
				x, y := draw()
				q.Grid, q.Y = append(q.Grid, grid(x)...), append(q.Y, float32(y))
			}
			distribution, err := q.PredictiveSystem()
			if err != nil {
				t.Fatal(err)
			}
			x, y := draw()
			y = float64(float32(y))
			d := distribution(grid(x))
			pit = append(pit, d.CDF(y, rng.Float64()))
			for k, p := range probabilities {
				if y <= d.Quantile(p, 0) {
					atMost[k]++
				}
				if y < d.Quantile(p, 1) {
					below[k]++
				}
			}
		}
		slices.Sort(pit)
		var distance float64 // Kolmogorov–Smirnov statistic
		for i, p := range pit {
			distance = max(distance, math.Abs(p-float64(i)/repeats), math.Abs(p-float64(i+1)/repeats))
		}
		if limit := 1.95 / math.Sqrt(repeats); distance > limit { // p = 0.001
			t.Errorf("%s: the distance from uniform is %v, more than %v", name, distance, limit)
		}
		for k, p := range probabilities {
			se := math.Sqrt(p * (1 - p) / repeats)
			if got := float64(atMost[k]) / repeats; got < p-4*se {
				t.Errorf("%s: targets are at most the quantile %v with probability %v", name, p, got)
			}
			if got := float64(below[k]) / repeats; got > p+4*se {
				t.Errorf("%s: targets are below the quantile %v with probability %v", name, p, got)
			}
			if steps > 1000 {
				checkCoverage(t, "upper quantile", atMost[k], repeats, n, 1-p)
			}
		}
	}
}
