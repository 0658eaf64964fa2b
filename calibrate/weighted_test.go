package calibrate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
)

// TestWeightedConformal checks p-values and thresholds that are computed by hand.
func TestWeightedConformal(t *testing.T) {
	c, err := NewWeightedConformal([]float64{3, 1, 2, 2}, []float64{4, 2, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	inf := math.Inf(1)
	for _, tt := range []struct{ s, weight, want float64 }{
		{0, 1, 1}, {1.5, 1, 6. / 8}, {2, 1, 6. / 8}, {3, 1, 5. / 8}, {4, 1, 1. / 8}, {4, 0, 0},
		{4, inf, 1}, {4, math.NaN(), 1}, {math.NaN(), 1, 1. / 8}, {-inf, 3, 1},
	} {
		if got := c.PValue(tt.s, tt.weight); math.Abs(got-tt.want) > 1e-15 {
			t.Errorf("the p-value of score %v and weight %v is %v, not %v", tt.s, tt.weight, got, tt.want)
		}
	}
	for _, tt := range []struct{ alpha, weight, want float64 }{
		{.1, 1, inf}, {.125, 1, 3}, {.6, 1, 3}, {.7, 1, 2}, {.8, 1, 1}, {1, 1, -inf}, {.1, 0, 3}, {.9, inf, inf},
	} {
		if got := c.Threshold(tt.alpha, tt.weight); got != tt.want {
			t.Errorf("the threshold at %v and weight %v is %v, not %v", tt.alpha, tt.weight, got, tt.want)
		}
	}
	if got := EffectiveSampleSize([]float64{4, 2, 0, 1}); got != 49./21 {
		t.Errorf("the effective sample size is %v, not 49/21", got)
	}
	if got := EffectiveSampleSize(nil); got != 0 {
		t.Errorf("the effective sample size of no rows is %v", got)
	}
	empty, err := NewWeightedConformal(nil, nil)
	if err != nil || empty.PValue(1, 0) != 1 || empty.PValue(1, 2) != 1 || empty.Threshold(.5, 2) != inf {
		t.Errorf("without calibration rows, the error is %v, p-values are %v and %v, and the threshold is %v",
			err, empty.PValue(1, 0), empty.PValue(1, 2), empty.Threshold(.5, 2))
	}
	for name, weights := range map[string][]float64{"too few": {1}, "negative": {1, -1}, "NaN": {1, math.NaN()}, "infinite": {inf, 1}} {
		if _, err := NewWeightedConformal([]float64{1, 2}, weights); err == nil {
			t.Errorf("%s weights give no error", name)
		}
	}
	if _, err := NewWeightedConformal([]float64{1, math.NaN()}, []float64{1, 1}); err == nil {
		t.Error("a score of NaN gives no error")
	}
}

// TestWeightedThresholdFitsPValue checks that a score is above the threshold exactly if its
// p-value is at most α. Scores tie, and some weights are 0.
func TestWeightedThresholdFitsPValue(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 1 + r.IntN(12)
		scores, weights := make([]float64, n), make([]float64, n)
		for i := range scores {
			scores[i], weights[i] = float64(r.IntN(6)), max(r.Float64()-.2, 0)
		}
		c, err := NewWeightedConformal(scores, weights)
		if err != nil {
			t.Fatal(err)
		}
		weight := r.Float64()
		for _, alpha := range []float64{.1, r.Float64(), c.PValue(float64(r.IntN(6)), weight)} {
			threshold := c.Threshold(alpha, weight)
			for s := -1.; s < 7; s += .5 {
				if p := c.PValue(s, weight); (p <= alpha) != (s > threshold) {
					t.Fatalf("score %v has the p-value %v and the threshold at %v is %v", s, p, alpha, threshold)
				}
			}
		}
	}
}

// TestEqualWeights checks that equal weights change no bit of p-values, thresholds, intervals
// and sets, for every kind of interval and set.
func TestEqualWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const n, classes = 57, 4
	for _, unit := range []float64{1, .3, 7e-5} {
		weights := slices.Repeat([]float64{unit}, n)
		scores := make([]float64, n)
		for i := range scores {
			scores[i] = math.Round(20*r.NormFloat64()) / 10
		}
		plain, _ := NewConformal(scores)
		c, err := NewWeightedConformal(scores, weights)
		if err != nil {
			t.Fatal(err)
		}
		for s := -4.; s < 4; s += .05 {
			if got, want := c.PValue(s, unit), plain.PValue(s); got != want {
				t.Fatalf("the p-value of %v is %v, not %v", s, got, want)
			}
		}
		for alpha := .001; alpha < 1; alpha += .001 {
			if got, want := c.Threshold(alpha, unit), plain.Threshold(alpha); got != want {
				t.Fatalf("the threshold at %v is %v, not %v", alpha, got, want)
			}
		}
		targets := []QuantileCalibration{{Levels: []float64{.05, .5, .95}}, {Levels: []float64{.05, .5, .95}}}
		for i := range targets {
			for range n {
				mid, width := float32(r.NormFloat64()), float32(.1+r.Float64())
				targets[i].Grid = append(targets[i].Grid, mid-width, mid, mid+2*width)
				targets[i].Y = append(targets[i].Y, mid+2*width*float32(r.NormFloat64()))
			}
		}
		weighted := slices.Clone(targets)
		weighted[0].Weights, weighted[1].Weights = weights, weights
		options := []IntervalOptions{{Side: "lower"}, {Side: "upper"}, {Joint: true}}
		for _, score := range conformal.IntervalScores() {
			if score != conformal.Ridge {
				options = append(options, IntervalOptions{Score: score})
			}
		}
		for _, o := range options {
			for _, alpha := range []float64{.001, .1, .5} {
				checkSameIntervals(t, targets, weighted, o, alpha, unit)
			}
		}
		logits, labels := rows.New(n, classes), make([]int, n)
		for i := range labels {
			labels[i] = r.IntN(classes)
			for k := range classes {
				rows.Row(logits, i)[k] = float32(r.NormFloat64())
			}
			rows.Row(logits, i)[labels[i]] += 2
		}
		k, err := NewClassCalibration(logits, labels)
		if err != nil {
			t.Fatal(err)
		}
		for _, score := range conformal.SetScores() {
			for _, o := range []SetOptions{{Score: score}, {Score: score, ByClass: true}, {Score: score, ByCluster: true, Seed: 5}} {
				if score != conformal.Ordinal || !o.ByClass && !o.ByCluster {
					checkSameSets(t, k, o, logits, weights)
				}
			}
		}
	}
}

func checkSameIntervals(t *testing.T, targets, weighted []QuantileCalibration, o IntervalOptions, alpha, unit float64) {
	t.Helper()
	var ends [2][2][]float64
	for k, calibration := range [][]QuantileCalibration{targets, weighted} {
		v, err := NewIntervals(calibration, o, alpha)
		if err != nil {
			t.Fatal(err)
		}
		lower, upper := make([]float64, 2), make([]float64, 2)
		v.WithWeight(unit).Predict(lower, upper, [][]float32{{-1, 0, 3}, {0, 1, 1}}, 0)
		ends[k] = [2][]float64{lower, upper}
	}
	if !slices.Equal(ends[0][0], ends[1][0]) || !slices.Equal(ends[0][1], ends[1][1]) {
		t.Errorf("%+v at %v: equal weights give %v instead of %v", o, alpha, ends[1], ends[0])
	}
}

func checkSameSets(t *testing.T, c ClassCalibration, o SetOptions, logits blas32.General, weights []float64) {
	t.Helper()
	for _, alpha := range []float64{.01, .1, .4} {
		plain, err := c.Sets(o, alpha)
		if err != nil {
			t.Fatal(err)
		}
		c.Weights = weights
		s, err := c.Sets(o, alpha)
		if err != nil {
			t.Fatal(err)
		}
		c.Weights = nil
		s = s.WithWeight(weights[0])
		if !slices.EqualFunc(s.Predict(logits, 0), plain.Predict(logits, 0), slices.Equal) {
			t.Errorf("%+v at %v: equal weights give other sets", o, alpha)
		}
		if !slices.Equal(s.PValues(logits, 0), plain.PValues(logits, 0)) {
			t.Errorf("%+v at %v: equal weights give other p-values", o, alpha)
		}
	}
}

// TestUnknownWeight checks that intervals are infinite and sets full until WithWeight is
// called.
func TestUnknownWeight(t *testing.T) {
	const n = 50
	q := QuantileCalibration{Levels: []float64{.5}, Grid: make([]float32, n), Y: make([]float32, n), Weights: slices.Repeat([]float64{1}, n)}
	v, err := NewIntervals([]QuantileCalibration{q}, IntervalOptions{}, .1)
	if err != nil {
		t.Fatal(err)
	}
	lower, upper := make([]float64, 1), make([]float64, 1)
	if v.Predict(lower, upper, [][]float32{{0}}, 0); !math.IsInf(lower[0], -1) || !math.IsInf(upper[0], 1) {
		t.Errorf("without a weight, the interval is [%v, %v]", lower[0], upper[0])
	}
	logits := rows.New(n, 2)
	for i := range n {
		rows.Row(logits, i)[0] = 9
	}
	c, err := NewClassCalibration(logits, make([]int, n))
	if err != nil {
		t.Fatal(err)
	}
	c.Weights = q.Weights
	s, err := c.Sets(SetOptions{}, .1)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Predict(logits, 0)[0]; len(got) != 2 {
		t.Errorf("without a weight, the set is %v", got)
	}
	if got := s.WithWeight(1).Predict(logits, 0)[0]; len(got) != 1 {
		t.Errorf("with a weight, the set is %v", got)
	}
}

// TestWeightsAreRefused checks that everything that cannot use weights says so.
func TestWeightsAreRefused(t *testing.T) {
	q := QuantileCalibration{Levels: []float64{.5}, Grid: []float32{0, 0}, Y: []float32{0, 1}, Weights: []float64{1, 2}}
	other, short := q, q
	other.Weights, short.Weights = nil, []float64{1}
	c, err := NewClassCalibration(rows.New(2, 2), []int{0, 1})
	if err != nil {
		t.Fatal(err)
	}
	c.Weights = []float64{1, 2}
	bad := c
	bad.Weights = []float64{1}
	for name, f := range map[string]func() error{
		"smoothed intervals": func() error {
			_, err := NewIntervals([]QuantileCalibration{q}, IntervalOptions{Smoothed: true}, .1)
			return err
		},
		"different weights": func() error {
			_, err := NewIntervals([]QuantileCalibration{q, other}, IntervalOptions{}, .1)
			return err
		},
		"too few weights": func() error { _, err := NewIntervals([]QuantileCalibration{short}, IntervalOptions{}, .1); return err },
		"a distribution":  func() error { _, err := short.PredictiveSystem(); return err },
		"smoothed sets":   func() error { _, err := c.Sets(SetOptions{Smoothed: true}, .1); return err },
		"weights of sets": func() error { _, err := bad.Sets(SetOptions{}, .1); return err },
		"an error rate":   func() error { _, err := c.Selective(nil, .1); return err },
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	parts := q.ByGroup([]string{"a", "b"})
	if !slices.Equal(parts["b"].Weights, []float64{2}) {
		t.Errorf("the weights of group b are %v", parts["b"].Weights)
	}
}

// TestIntegerWeights checks that a row with the weight k counts like k equal rows with the
// weight 1, for intervals and sets.
func TestIntegerWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 13))
	const n, classes, alpha = 40, 3, .1234
	levels := []float64{.05, .5, .95}
	weighted, copied := QuantileCalibration{Levels: levels}, QuantileCalibration{Levels: levels}
	logits := rows.New(n, classes)
	var labels, order, copiedLabels []int
	for i := range n {
		mid, width := float32(r.NormFloat64()), float32(.1+r.Float64())
		weighted.Grid = append(weighted.Grid, mid-width, mid, mid+2*width)
		weighted.Y = append(weighted.Y, mid+2*width*float32(r.NormFloat64()))
		labels = append(labels, r.IntN(classes))
		for k := range classes {
			rows.Row(logits, i)[k] = float32(2 * r.NormFloat64())
		}
		weight := r.IntN(5)
		weighted.Weights = append(weighted.Weights, float64(weight))
		for range weight {
			copied.add(QuantileCalibration{Levels: levels, Grid: weighted.Grid, Y: weighted.Y}, i)
			order, copiedLabels = append(order, i), append(copiedLabels, labels[i])
		}
	}
	for _, o := range []IntervalOptions{{Side: "lower"}, {Side: "upper"}, {Joint: true}, {Score: "cqr"}, {Score: "cqr-r"}, {Score: "cqr-m"}, {Score: "cir"}} {
		checkSameIntervals(t, []QuantileCalibration{copied, copied}, []QuantileCalibration{weighted, weighted}, o, alpha, 1)
	}
	c, err := NewClassCalibration(logits, labels)
	if err != nil {
		t.Fatal(err)
	}
	c.Weights = weighted.Weights
	want, err := NewClassCalibration(rows.Select(logits, order), copiedLabels)
	if err != nil {
		t.Fatal(err)
	}
	for _, score := range conformal.SetScores() {
		for _, byClass := range []bool{false, score != conformal.Ordinal} {
			o := SetOptions{Score: score, ByClass: byClass}
			a, err := c.Sets(o, alpha)
			if err != nil {
				t.Fatal(err)
			}
			b, err := want.Sets(o, alpha)
			if err != nil {
				t.Fatal(err)
			}
			if a = a.WithWeight(1); !slices.EqualFunc(a.Predict(logits, 0), b.Predict(logits, 0), slices.Equal) {
				t.Errorf("%+v: sets of weighted rows differ from those of copied rows", o)
			}
			expected := b.PValues(logits, 0)
			for i, p := range a.PValues(logits, 0) {
				if math.Abs(p-expected[i]) > 1e-12 {
					t.Fatalf("%+v: p-value %d of weighted rows is %v, and %v of copied rows", o, i, p, expected[i])
				}
			}
		}
	}
}
