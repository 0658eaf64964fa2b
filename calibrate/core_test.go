package calibrate

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

// TestScoresReference compares intervals with TorchCP. testdata/scores.py computed the
// reference.
func TestScoresReference(t *testing.T) {
	raw, err := os.ReadFile("testdata/scores.json")
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Alpha     float64
		Quantiles [][]float32
		Y         []float32
		R         [][2]float64 `json:"cqr-r"`
		M         [][2]float64 `json:"cqr-m"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	q := QuantileCalibration{Levels: []float64{r.Alpha / 2, .5, 1 - r.Alpha/2}, Y: r.Y}
	for _, row := range r.Quantiles[:len(r.Y)] {
		q.Grid = append(q.Grid, row...)
	}
	for score, want := range map[string][][2]float64{"cqr-r": r.R, "cqr-m": r.M} {
		if len(want) == 0 {
			t.Errorf("no intervals of %s", score)
		}
		for i, ends := range want {
			lo, hi := predictInterval(t, q, IntervalOptions{Score: score}, r.Quantiles[len(r.Y)+i], r.Alpha)
			checkNear(t, score+" lower end", lo, ends[0], 1e-5)
			checkNear(t, score+" upper end", hi, ends[1], 1e-5)
		}
	}
}

// exponentialQuantiles returns the quantiles of x + e at levels, for an exponential variable e with
// mean 1+x.
func exponentialQuantiles(x float64, levels []float64) []float32 {
	row := make([]float32, len(levels))
	for l, level := range levels {
		row[l] = float32(x - (1+x)*math.Log1p(-level))
	}
	return row
}

// TestNarrowest checks the narrowest intervals of three variables. For an exponential
// variable, the interval goes from the smallest value to the quantile 1−α, at x +
// (1+x)·ln(1/α). For the mirrored variable, it ends at the largest value. If quantiles are
// equally spaced, all intervals have the same width.
func TestNarrowest(t *testing.T) {
	var levels []float64
	for l := .001; l < 1; l += .001 {
		levels = append(levels, l)
	}
	q := QuantileCalibration{Levels: levels}
	row := exponentialQuantiles(2, levels)
	mirrored, symmetric := make([]float32, len(row)), make([]float32, len(row))
	for l := range row {
		mirrored[l], symmetric[l] = -row[len(row)-1-l], float32(l)
	}
	for _, alpha := range []float64{.05, .1, .4} {
		lo, hi := q.narrowestInterval(row, 1-alpha)
		checkNear(t, "lower end", lo, 2-3*math.Log(.999), 1e-6)
		checkNear(t, "upper end", hi, 2-3*math.Log(alpha-.001), 1e-5)
		a, b := q.narrowestInterval(mirrored, 1-alpha)
		checkNear(t, "mirrored lower end", a, -hi, 1e-5)
		checkNear(t, "mirrored upper end", b, -lo, 1e-5)
		a, b = q.narrowestInterval(symmetric, 1-alpha)
		checkNear(t, "width for a symmetric variable", b-a, 1000*(1-alpha), 1e-6)
	}
	// No two levels differ by 0.9989, so the result is the central interval.
	if a, b := q.narrowestInterval(row, .9989); a != q.quantile(row, .00055) || b != q.quantile(row, .99945) {
		t.Errorf("from %v to %v beyond all levels, want the central interval", a, b)
	}
	// No pair of levels on a fine grid may give a narrower interval.
	rng := rand.New(rand.NewPCG(41, 1))
	coarse := QuantileCalibration{Levels: []float64{.01, .05, .2, .45, .5, .8, .85, .99}}
	for range 200 {
		row, value := make([]float32, len(coarse.Levels)), 0.
		for l := range row {
			value += rng.ExpFloat64()
			row[l] = float32(value)
		}
		mass := .1 + .85*rng.Float64()
		lo, hi := coarse.narrowestInterval(row, mass)
		for from := .01; from+mass <= .99; from += .0007 {
			if a, b := coarse.quantile(row, from), coarse.quantile(row, from+mass); b-a < hi-lo-1e-5 {
				t.Fatalf("from %v to %v is narrower than from %v to %v, of mass %v", a, b, lo, hi, mass)
			}
		}
	}
}

// TestScoresCover checks that each score covers as often as guaranteed, for one target and for
// two at once. The predicted quantiles have a wrong centre, spread and shape.
func TestScoresCover(t *testing.T) {
	const repeats, calibrationRows = 1500, 19
	levels := []float64{.02, .1, .3, .5, .7, .9, .98}
	predict := func(x float64) []float32 { return exponentialQuantiles(x+.3*x*x, levels) }
	for _, score := range []string{"cqr", "cqr-r", "cqr-m", "cir", "rcp"} {
		n := calibrationRows
		if score == "rcp" {
			n -= n / 2 // only half of the rows calibrate
		}
		rng := rand.New(rand.NewPCG(42, 1))
		for _, alpha := range []float64{.1, .3} {
			single, both := 0, 0
			for range repeats {
				targets := []QuantileCalibration{{Levels: levels}, {Levels: levels}}
				var row [][]float32
				var y []float64
				for i := range calibrationRows + 1 {
					x, v := drawSkewed(rng)
					v = float64(float32(v))
					other := float64(float32(10 * (v + x*rng.NormFloat64())))
					if i == calibrationRows {
						row, y = [][]float32{predict(x), predict(-x)}, []float64{v, other}
						break
					}
					for t, input := range []float64{x, -x} {
						targets[t].Grid, targets[t].Y = append(targets[t].Grid, predict(input)...), append(targets[t].Y, float32([]float64{v, other}[t]))
					}
				}
				if lo, hi := predictInterval(t, targets[0], IntervalOptions{Score: score}, row[0], alpha); lo <= y[0] && y[0] <= hi {
					single++
				}
				v, err := NewIntervals(targets, IntervalOptions{Score: score, Joint: true}, alpha)
				if err != nil {
					t.Fatal(err)
				}
				var lo, hi [2]float64
				v.Predict(lo[:], hi[:], row, 0)
				if lo[0] <= y[0] && y[0] <= hi[0] && lo[1] <= y[1] && y[1] <= hi[1] {
					both++
				}
			}
			checkCoverage(t, score, single, repeats, n, alpha)
			checkCoverage(t, score+", jointly", both, repeats, n, alpha)
		}
	}
}

// TestScoresOfSkewed checks the widths of intervals for exponential variables with known
// quantiles. Intervals by cir must be narrower than those by cqr by the factor ln(1/α) /
// ln((2−α)/α). CQR-m must move each end in proportion to its distance from the median.
func TestScoresOfSkewed(t *testing.T) {
	const n, alpha = 20000, .1
	var levels []float64
	for l := .005; l < 1; l += .005 {
		levels = append(levels, l)
	}
	rng := rand.New(rand.NewPCG(43, 1))
	q := QuantileCalibration{Levels: levels}
	for range n {
		x := rng.Float64()
		q.Grid, q.Y = append(q.Grid, exponentialQuantiles(x, levels)...), append(q.Y, float32(x+(1+x)*rng.ExpFloat64()))
	}
	row := exponentialQuantiles(.5, levels)
	width := func(score string) float64 {
		lo, hi := predictInterval(t, q, IntervalOptions{Score: score}, row, alpha)
		return hi - lo
	}
	checkNear(t, "width by cqr", width("cqr"), 1.5*math.Log((2-alpha)/alpha), .1)
	checkNear(t, "width by cir as a fraction of it", width("cir")/width("cqr"), math.Log(1/alpha)/math.Log((2-alpha)/alpha), .03)
	lo, hi := predictInterval(t, q, IntervalOptions{Score: "cqr-m"}, row, .6)
	low, median, high := q.quantile(row, .3), q.quantile(row, .5), q.quantile(row, .7)
	checkNear(t, "fraction of the distances by cqr-m", (low-lo)/(median-low), (hi-high)/(high-median), 1e-9)
	if (hi-high)*(low-lo) == 0 {
		t.Error("CQR-m moved nothing")
	}
}
