package calibrate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// drawMisjudged draws n rows whose forecasts have the right centre but a constant spread. The true
// spread increases with x.
func drawMisjudged(rng *rand.Rand, n int) QuantileCalibration {
	q := QuantileCalibration{Levels: []float64{.05, .5, .95}}
	for range n {
		x := rng.Float64()
		q.Grid = append(q.Grid, float32(x-1), float32(x), float32(x+1))
		q.Y = append(q.Y, float32(x+spread(x)*rng.NormFloat64()))
	}
	return q
}

func spread(x float64) float64 { return .2 + 2*x }

// TestRectified checks that intervals by rcp nearly match the true normal intervals
// everywhere, although the forecasts misjudge the spread. Intervals by cqr would have the same
// width everywhere.
func TestRectified(t *testing.T) {
	const n, alpha, z = 40000, .1, 1.6449
	q := drawMisjudged(rand.New(rand.NewPCG(51, 1)), n)
	rcp, err := NewIntervals([]QuantileCalibration{q}, IntervalOptions{Score: "rcp"}, alpha)
	if err != nil {
		t.Fatal(err)
	}
	var lo, hi [1]float64
	for part := .05; part < 1; part += .1 {
		got := 0.
		for x := part - .05; x < part+.05; x += .005 {
			row := []float32{float32(x - 1), float32(x), float32(x + 1)}
			rcp.Predict(lo[:], hi[:], [][]float32{row}, 0)
			got += (hi[0] - lo[0]) / 40
		}
		if want := z * spread(part); math.Abs(got/want-1) > .1 {
			t.Errorf("about %.2f half the width is %.3f, want %.3f", part, got, want)
		}
	}
}

// TestRectifiedByHand recomputes an interval. Each end is the forecast moved outwards by the
// rectifier's estimate plus the margin. The margin is a quantile of the scores minus their
// estimates, over the rows that did not train the rectifier.
func TestRectifiedByHand(t *testing.T) {
	const n, alpha = 401, .2
	q := drawMisjudged(rand.New(rand.NewPCG(52, 1)), n)
	v, err := NewIntervals([]QuantileCalibration{q}, IntervalOptions{Score: "rcp", Seed: 3}, alpha)
	if err != nil {
		t.Fatal(err)
	}
	remaining := v.targets[0]
	if len(remaining.Y) != n-n/2 || v.rectifiers[0].forest == nil {
		t.Fatalf("%d of %d rows calibrate", len(remaining.Y), n)
	}
	margins := make([]float64, len(remaining.Y))
	for i, y := range remaining.Y {
		row := remaining.Grid[3*i : 3*i+3]
		a, b := remaining.quantile(row, alpha/2), remaining.quantile(row, 1-alpha/2)
		margins[i] = max(a-float64(y), float64(y)-b) - v.rectifiers[0].estimate(row)
	}
	slices.Sort(margins)
	margin := margins[int(math.Ceil((1-alpha)*float64(len(margins)+1)))-1]
	row := []float32{-.6, .4, 1.4}
	estimate := v.rectifiers[0].estimate(row)
	if estimate == 0 {
		t.Error("the rectifier's estimate is 0")
	}
	var lo, hi [1]float64
	v.Predict(lo[:], hi[:], [][]float32{row}, 0)
	checkNear(t, "lower end", lo[0], q.quantile(row, alpha/2)-estimate-margin, 1e-9)
	checkNear(t, "upper end", hi[0], q.quantile(row, 1-alpha/2)+estimate+margin, 1e-9)
}

// TestRectifiedCovers checks that intervals cover as often as half of the calibration rows
// guarantee. The other half trains the forest.
func TestRectifiedCovers(t *testing.T) {
	const repeats, n, alpha = 500, 99, .2
	rng := rand.New(rand.NewPCG(53, 1))
	covered := 0
	for r := range repeats {
		q, test := drawMisjudged(rng, n), drawMisjudged(rng, 1)
		o := IntervalOptions{Score: "rcp", Seed: uint64(r), Smoothed: true}
		if lo, hi := predictInterval(t, q, o, test.Grid, alpha); lo <= float64(test.Y[0]) && float64(test.Y[0]) <= hi {
			covered++
		}
	}
	checkCoverage(t, "rcp", covered, repeats, n-n/2, alpha)
}

// TestRectifiedErrors checks that NewIntervals returns an error if a calibration row has a
// score that cannot train a forest.
func TestRectifiedErrors(t *testing.T) {
	q := drawMisjudged(rand.New(rand.NewPCG(54, 1)), 40)
	q.Y = slices.Repeat([]float32{float32(math.Inf(1))}, 40)
	if _, err := NewIntervals([]QuantileCalibration{q}, IntervalOptions{Score: "rcp"}, .1); err == nil {
		t.Error("infinite targets were accepted")
	}
}
