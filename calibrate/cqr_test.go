package calibrate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

func TestCQRMargin(t *testing.T) {
	// The scores max(lo−y, y−hi) are computed by hand.
	lo := []float64{0, 0, 0, 0}
	hi := []float64{1, 1, 1, 1}
	y := []float64{0.5, -2, 1.25, 0.9}
	c, err := newJointBox(symmetricIntervals(lo, hi), y, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []float64{-0.5, -0.09999999999999998, 0.25, 2}
	for i, s := range c.Scores {
		if s != want[i] {
			t.Fatalf("scores %v, want %v", c.Scores, want)
		}
	}
	for _, tt := range []struct{ alpha, margin float64 }{
		{0.1, math.Inf(1)}, {0.2, 2}, {1 - 0.8, 2}, {0.4, 0.25}, {1 - 0.6, 0.25}, {0.8, -0.5},
	} {
		if got := (Conformal{c.Scores}).Threshold(hypothesis.Forgive(tt.alpha)); got != tt.margin {
			t.Errorf("margin at %v is %v, want %v", tt.alpha, got, tt.margin)
		}
	}
	interval := func(lo, hi, alpha float64) (float64, float64) { return calibratedInterval(c, lo, hi, alpha, 0) }
	if a, b := interval(3, 4, 0.4); a != 2.75 || b != 4.25 {
		t.Errorf("interval [%v, %v], want [2.75, 4.25]", a, b)
	}
	if a, b := interval(3, 3.5, 0.8); a != 3.25 || b != 3.25 {
		t.Errorf("interval [%v, %v], want its midpoint 3.25", a, b)
	}
	if a, b := interval(3, 4, 0.01); !math.IsInf(a, -1) || !math.IsInf(b, 1) {
		t.Errorf("interval [%v, %v], want the whole line", a, b)
	}
	if _, err := newJointBox(symmetricIntervals(lo, hi), []float64{0, 0, math.NaN(), 0}, 1, nil); err == nil {
		t.Error("NaN was accepted")
	}
}

// symmetricIntervals returns base intervals with 1 as the unit of both ends.
func symmetricIntervals(lower, upper []float64) []baseInterval {
	all := make([]baseInterval, len(lower))
	for i := range lower {
		all[i] = baseInterval{lower[i], upper[i], 1, 1}
	}
	return all
}

// calibratedInterval returns the calibrated interval that starts from lo and hi.
func calibratedInterval(j jointBox, lo, hi, alpha, tau float64) (lower, upper float64) {
	a, b := boxEnds(j, symmetricIntervals([]float64{lo}, []float64{hi}), alpha, tau)
	return a[0], b[0]
}

// predictInterval returns the calibrated interval of a row of quantiles.
func predictInterval(t *testing.T, q QuantileCalibration, o IntervalOptions, row []float32, alpha float64) (lower, upper float64) {
	t.Helper()
	v, err := NewIntervals([]QuantileCalibration{q}, o, alpha)
	if err != nil {
		t.Fatal(err)
	}
	var lo, hi [1]float64
	v.Predict(lo[:], hi[:], [][]float32{row}, 0)
	return lo[0], hi[0]
}

// TestCQRCoverage checks that intervals cover as often as guaranteed at several levels of one
// calibration, although the predicted quantiles are skewed and much too narrow.
func TestCQRCoverage(t *testing.T) {
	const repeats, n = 6000, 39 // an error of one rank would change the coverage by 1/40, which is more than 4 standard errors
	levels := []float64{0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98}
	predict := func(x float64) []float32 {
		row := make([]float32, len(levels))
		for l, tau := range levels {
			row[l] = float32(x + 0.3*(tau-0.4))
		}
		return row
	}
	rng := rand.New(rand.NewPCG(5, 6))
	draw := func() (float64, float64) {
		x := rng.Float64()
		return x, float64(float32(x + (0.1+x)*rng.NormFloat64()))
	}
	alphas := []float64{0.05, 0.1, 1 - 0.8}
	covered := make([]float64, len(alphas))
	for range repeats {
		q := QuantileCalibration{Levels: levels}
		for range n {
			x, y := draw()
			q.Grid = append(q.Grid, predict(x)...)
			q.Y = append(q.Y, float32(y))
		}
		x, y := draw()
		for a, alpha := range alphas {
			lo, hi := predictInterval(t, q, IntervalOptions{}, predict(x), alpha)
			if lo <= y && y <= hi {
				covered[a]++
			}
		}
	}
	for a, alpha := range alphas {
		got, want := covered[a]/repeats, hypothesis.ExpectedCoverage(n, alpha)
		if se := math.Sqrt(want * (1 - want) / repeats); math.Abs(got-want) > 4*se {
			t.Errorf("α=%v: coverage %v, want %v ± %v", alpha, got, want, 4*se)
		}
	}
}

func TestQuantileCalibrationErrors(t *testing.T) {
	valid := QuantileCalibration{Levels: []float64{0.1, 0.9}, Grid: []float32{1, 2}, Y: []float32{1}}
	if err := valid.check(); err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]QuantileCalibration{
		"no levels":      {Grid: valid.Grid, Y: valid.Y},
		"short grid":     {Levels: valid.Levels, Grid: []float32{1}, Y: valid.Y},
		"level beyond 1": {Levels: []float64{0.1, 1.9}, Grid: valid.Grid, Y: valid.Y},
		"level twice":    {Levels: []float64{0.1, 0.1}, Grid: valid.Grid, Y: valid.Y},
	} {
		if _, err := NewIntervals([]QuantileCalibration{q}, IntervalOptions{}, .1); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
