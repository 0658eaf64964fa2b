package calibrate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var nan, inf = math.NaN(), math.Inf(1)

func TestOneSided(t *testing.T) {
	o, err := newOneSided("upper", []float64{0, 0, 0, 0}, []float64{3, -1, 0.5, 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ alpha, want float64 }{{0.1, inf}, {0.2, 13}, {0.4, 12}, {0.8, 9}, {1, -inf}} {
		if got := o.bound(10, tt.alpha, 0, 0); got != tt.want {
			t.Errorf("upper bound at %v is %v, want %v", tt.alpha, got, tt.want)
		}
	}
	o, err = newOneSided("lower", []float64{0, 0, 0, 0}, []float64{3, -1, 0.5, 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ alpha, want float64 }{{0.1, -inf}, {0.2, 9}, {0.4, 10.5}} {
		if got := o.bound(10, tt.alpha, 0, 0); got != tt.want {
			t.Errorf("lower bound at %v is %v, want %v", tt.alpha, got, tt.want)
		}
	}
}

func TestSideLevel(t *testing.T) {
	checkNear(t, "level of a lower bound", sidedLevel("lower", 0.1), 0.1, 0)
	checkNear(t, "level of an upper bound", sidedLevel("upper", 0.1), 0.9, 0)
}

func TestByGroup(t *testing.T) {
	q := QuantileCalibration{Levels: []float64{0.25, 0.75}, Grid: []float32{0, 1, 2, 3, 4, 5}, Y: []float32{1, 2, 9}}
	parts := q.ByGroup([]string{"a", "b", "a"})
	if a := parts["a"]; len(parts) != 2 || !slices.Equal(a.Grid, []float32{0, 1, 4, 5}) || !slices.Equal(a.Y, []float32{1, 9}) || a.check() != nil {
		t.Errorf("parts %v", parts)
	}
}

// intervalsByWidth returns base intervals with their width as the unit of both ends.
func intervalsByWidth(lo, hi []float64) []baseInterval {
	intervals := make([]baseInterval, len(lo))
	for i := range lo {
		intervals[i] = baseInterval{lo[i], hi[i], hi[i] - lo[i], hi[i] - lo[i]}
	}
	return intervals
}

func boxEnds(j jointBox, base []baseInterval, alpha, tau float64) (lower, upper []float64) {
	lower, upper = make([]float64, len(base)), make([]float64, len(base))
	j.ends(lower, upper, base, alpha, tau, 0)
	return lower, upper
}

// TestJointWithoutWidth checks intervals of width 0: their score is 0 if they contain the
// target, and +Inf otherwise. The lower end of a box must not exceed its upper end, for
// margins of either sign.
func TestJointWithoutWidth(t *testing.T) {
	j, err := newJointBox(intervalsByWidth([]float64{1, 1, 0, 0}, []float64{1, 1, 2, 2}), []float64{1, 5, 1, 0.5}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []float64{-0.5, -0.25, 0, inf}; !slices.Equal(j.Scores, want) {
		t.Errorf("scores %v, want %v", j.Scores, want)
	}
	for _, tt := range []struct{ alpha, lo, hi float64 }{{0.4, 7, 7}, {0.2, -inf, inf}, {0.1, -inf, inf}} {
		if lo, hi := boxEnds(j, intervalsByWidth([]float64{7}, []float64{7}), tt.alpha, 0); lo[0] != tt.lo || hi[0] != tt.hi {
			t.Errorf("box at %v is [%v, %v], want [%v, %v]", tt.alpha, lo, hi, tt.lo, tt.hi)
		}
	}
	if lo, hi := boxEnds(j, intervalsByWidth([]float64{0}, []float64{4}), 0.8, 0); lo[0] != 2 || hi[0] != 2 {
		t.Errorf("box [%v, %v], want the midpoint", lo, hi)
	}
}

func TestDistributionByHand(t *testing.T) {
	q, distribution := calibratePoints(t, []float64{0, 0, 0, 0}, nil, []float64{2, 1, 2, 4})
	d := distribution(pointQuantiles(10, 1))
	for _, tt := range []struct{ y, tau, want float64 }{
		{10, 0, 0}, {10, 1, 0.2}, {11, 0, 0}, {11, 1, 0.4}, {11.5, 0.5, 0.3}, {12, 0, 0.2}, {12, 0.5, 0.5}, {12, 1, 0.8},
		{13, 0, 0.6}, {20, 0, 0.8}, {20, 1, 1},
	} {
		checkNear(t, "CDF", d.CDF(tt.y, tt.tau), tt.want, 1e-15)
	}
	for _, tt := range []struct{ level, tau, want float64 }{
		{0, 0, -inf}, {0.2, 0, 11}, {0.21, 0, 12}, {0.6, 0, 12}, {0.8, 0, 14}, {0.81, 0, inf}, {0.2, 1, -inf}, {1, 1, 14}, {0.5, 0.5, 12},
	} {
		if got := d.Quantile(tt.level, tt.tau); got != tt.want {
			t.Errorf("quantile %v at τ=%v is %v, want %v", tt.level, tt.tau, got, tt.want)
		}
	}
	for _, tt := range []struct{ level, want float64 }{{0, 11}, {0.2, 11}, {0.3, 11.5}, {0.5, 12}, {0.7, 13}, {0.9, 14}} {
		checkNear(t, "interpolated quantile", d.interpolatedQuantile(tt.level), tt.want, 1e-12)
	}
	empty := Distribution{calibration: q, row: pointQuantiles(0, 1)}
	if empty.CDF(3, 1) != 1 || empty.CDF(3, 0) != 0 || !math.IsInf(empty.Quantile(0.5, 0), 1) || !math.IsNaN(empty.interpolatedQuantile(0.5)) {
		t.Error("a distribution without calibration rows is not trivial")
	}
	if !math.IsNaN(d.CDF(nan, 0.5)) {
		t.Error("the CDF at NaN is a number")
	}
}

// TestDistributionInverse checks that the quantile function is the inverse of the distribution
// function. The rows of quantiles have jumps, flat parts and tails.
func TestDistributionInverse(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 1))
	levels := []float64{0.1, 0.2, 0.5, 0.8, 0.9}
	for range 300 {
		q := QuantileCalibration{Levels: levels}
		row := func() []float32 {
			r := make([]float32, len(levels))
			for l := range r {
				r[l] = float32(rng.IntN(5))
			}
			slices.Sort(r)
			return r
		}
		for range 15 {
			q.Grid, q.Y = append(q.Grid, row()...), append(q.Y, float32(rng.IntN(12)-3))
		}
		distribution, err := q.PredictiveSystem()
		if err != nil {
			t.Fatal(err)
		}
		d := distribution(row())
		last := -inf
		for y := -9.0; y < 15; y += 0.25 {
			if v := q.levelOf(d.row, y); v <= last {
				t.Fatalf("the score does not grow: %v at %v", v, y)
			} else {
				last = v
			}
		}
		for range 20 {
			level, tau := rng.Float64(), rng.Float64()
			c := d.Quantile(level, tau)
			if math.IsInf(c, 0) {
				continue
			}
			if before, after := d.CDF(c-1e-6, tau), d.CDF(c+1e-6, tau); before >= level || after < level {
				t.Fatalf("around quantile %v, %v, the distribution function is %v and %v", level, c, before, after)
			}
			if lo, mid, hi := d.Quantile(level, 1), d.interpolatedQuantile(level), d.Quantile(level, 0); lo > mid+1e-9 && lo > d.interpolatedQuantile(0) || mid > hi+1e-9 {
				t.Fatalf("interpolated quantile %v is not between %v and %v", mid, lo, hi)
			}
		}
	}
}

// TestSample checks that draws follow their distribution, and depend only on the seed and the
// row.
func TestSample(t *testing.T) {
	const n = 40000
	draws := make([]float64, n)
	_, distribution := calibratePoints(t, make([]float64, 9), nil, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9})
	distribution(pointQuantiles(100, 2)).Sample(draws, 1, 1)
	below := 0
	for _, v := range draws {
		if v < 102 || v > 118 {
			t.Fatalf("draw %v lies beyond the calibration scores", v)
		}
		if v <= 106 { // at most the target of the third of 9 calibration scores, 100 + 2·3
			below++
		}
	}
	checkNear(t, "fraction of draws", float64(below)/n, 0.3, 4*math.Sqrt(0.21/n))
	again, other := make([]float64, 4), make([]float64, 4)
	distribution(pointQuantiles(100, 2)).Sample(again, 1, 1)
	distribution(pointQuantiles(100, 2)).Sample(other, 1, 2)
	if !slices.Equal(again, draws[:4]) || slices.Equal(again, other) {
		t.Errorf("draws %v and %v of the rows 1 and 2, first %v", again, other, draws[:4])
	}
	Distribution{}.Sample(draws, 1, 1)
	below = 0
	for _, v := range draws {
		if math.IsInf(v, -1) {
			below++
		} else if !math.IsInf(v, 1) {
			t.Fatalf("draw %v without calibration rows", v)
		}
	}
	checkNear(t, "fraction of draws of −Inf", float64(below)/n, .5, 4*math.Sqrt(.25/n))
}

func TestIntervalErrors(t *testing.T) {
	ones, nanTarget := []float64{1}, []float64{nan}
	q := QuantileCalibration{Levels: []float64{0.5}, Grid: []float32{1}, Y: []float32{float32(nan)}}
	short, empty := QuantileCalibration{Levels: q.Levels, Grid: q.Grid, Y: []float32{1}}, QuantileCalibration{Levels: q.Levels}
	for name, fit := range map[string]func() error{
		"one-sided":      func() error { _, err := newOneSided("lower", ones, nanTarget, nil); return err },
		"joint":          func() error { _, err := newJointBox(intervalsByWidth(ones, ones), nanTarget, 1, nil); return err },
		"joint crossing": func() error { _, err := newJointBox(intervalsByWidth([]float64{2}, ones), ones, 1, nil); return err },
		"joint of none":  func() error { _, err := IntervalOptions{Joint: true}.calibrateBox(nil, 0.1, nil); return err },
		"joint of levels": func() error {
			_, err := IntervalOptions{Joint: true}.calibrateBox([]QuantileCalibration{{}}, 0.1, make([]rectifier, 1))
			return err
		},
		"other rows": func() error {
			_, err := NewIntervals([]QuantileCalibration{short, empty}, IntervalOptions{}, 0.1)
			return err
		},
		"other rows of one side": func() error {
			_, err := NewIntervals([]QuantileCalibration{short, empty}, IntervalOptions{Side: "lower"}, 0.1)
			return err
		},
		"joint of other rows": func() error {
			_, err := NewIntervals([]QuantileCalibration{short, empty}, IntervalOptions{Joint: true}, 0.1)
			return err
		},
		"level 0":             func() error { _, err := NewIntervals(nil, IntervalOptions{}, 0); return err },
		"level 1":             func() error { _, err := NewIntervals(nil, IntervalOptions{Side: "lower"}, 1); return err },
		"level 3":             func() error { _, err := NewIntervals(nil, IntervalOptions{Score: "rcp"}, 3); return err },
		"level -1":            func() error { _, err := NewIntervals(nil, IntervalOptions{}, -1); return err },
		"level nan":           func() error { _, err := NewIntervals(nil, IntervalOptions{}, nan); return err },
		"system of quantiles": func() error { _, err := q.PredictiveSystem(); return err },
		"system of nothing":   func() error { _, err := QuantileCalibration{}.PredictiveSystem(); return err },
		"no side": func() error {
			_, err := NewIntervals([]QuantileCalibration{q}, IntervalOptions{Side: "left"}, 0.1)
			return err
		},
		"side and score": func() error {
			_, err := NewIntervals(nil, IntervalOptions{Side: "lower", Score: "cir"}, 0.1)
			return err
		},
		"no score":        func() error { _, err := NewIntervals(nil, IntervalOptions{Score: "cqr-x"}, 0.1); return err },
		"side of nothing": func() error { _, err := QuantileCalibration{}.calibrateSide("lower", 0.1); return err },
	} {
		if fit() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	_, system := calibratePoints(t, ones, nil, ones)
	d := Distribution{calibration: QuantileCalibration{Levels: []float64{0.5}}, row: []float32{0}}
	for name, call := range map[string]func(){
		"by group length": func() { q.ByGroup(nil) },
		"row":             func() { system(nil) },
		"τ":               func() { d.CDF(0, 2) },
		"level":           func() { d.Quantile(nan, 0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call()
		}()
	}
}
