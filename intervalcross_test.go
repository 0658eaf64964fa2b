package attach_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// crossFit returns the options of a cross-fit on a few noisy rows.
func crossFit(rng *rand.Rand, nCal int) attach.FitOptions {
	in := noisyFit(rng, nCal, 0.97)
	in.IntervalFit = "cross"
	return in
}

// TestCrossCoverage checks over many fits that cross-fitted intervals of few calibration rows
// cover about the level, and that copies of a row are in one fold.
func TestCrossCoverage(t *testing.T) {
	const fits, nCal, nTest = 40, 50, 200
	rng := rand.New(rand.NewPCG(21, 1))
	covered := 0
	for range fits {
		in := crossFit(rng, nCal)
		in.Batch, in.Targets = in.Batch.Slice(0, 50), rows.Select(in.Targets, rows.Folds(50, 1, 0)[0])
		test, y := noisyRows(rng, nTest, 0)
		for i, r := range mustPredict(t, mustFit(t, in), test, attach.PredictOptions{}) {
			if target, v := r.Targets[0], float64(y.Data[i]); target.Lower <= v && v <= target.Upper {
				covered++
			}
		}
	}
	if rate := float64(covered) / (fits * nTest); rate < 0.88 || rate > 0.94 {
		t.Errorf("%.4f of the targets are covered", rate)
	}
	in := crossFit(rng, 3*nCal)
	idx := make([]int, 3*nCal)
	for i := range idx {
		idx[i] = i % nCal
	}
	in.Cal, in.CalTargets = in.Cal.Select(idx), rows.Select(in.CalTargets, idx)
	folds := mustFit(t, in).Calibration.Folds
	if len(folds) != 3*nCal || !slices.Equal(folds[:nCal], folds[nCal:2*nCal]) || !slices.Equal(folds[:nCal], folds[2*nCal:]) {
		t.Errorf("copies are in different folds: %v", folds)
	}
}

// TestCrossIntervals checks the intervals of a restored file against calibrate.CrossIntervals,
// with quantiles that models of the folds predict, and that no model learned from its own fold.
func TestCrossIntervals(t *testing.T) {
	rng := rand.New(rand.NewPCG(22, 1))
	in := crossFit(rng, 45)
	in.SkipDetector = false
	b := mustFit(t, in)
	file := mustWrite(t, b)
	back, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(mustWrite(t, back), file) {
		t.Error("the restored file is written with other bytes")
	}
	if _, content := unpack(t, file); !bytes.Contains(content["manifest.json"], []byte(`"format": 7`)) {
		t.Error("an older program could open the file")
	}
	folds := back.Calibration.Folds
	if sizes := map[int]int{}; true {
		for _, k := range folds {
			sizes[k]++
		}
		if len(folds) != 45 || len(sizes) != 10 {
			t.Errorf("%d rows are in %d folds", len(folds), len(sizes))
		}
	}
	test, _ := noisyRows(rng, 30, 0)
	for _, o := range []attach.PredictOptions{{}, {Side: "upper"}, {Level: 0.6, IntervalScore: "cir"}, {Joint: true}, {Level: 0.99}} {
		if !slices.EqualFunc(mustPredict(t, b, test, o), mustPredict(t, back, test, o), func(x, y attach.Prediction) bool {
			return x.Targets[0].Lower == y.Targets[0].Lower && x.Targets[0].Upper == y.Targets[0].Upper && x.Score == y.Score
		}) {
			t.Errorf("%+v: the restored file predicts other intervals", o)
		}
	}
	if got := mustPredict(t, back, test, attach.PredictOptions{Level: 0.99})[0].Targets[0]; !math.IsInf(got.Lower, -1) || !math.IsInf(got.Upper, 1) {
		t.Errorf("45 rows are enough for the level 0.99: [%v, %v]", got.Lower, got.Upper)
	}

	// A fit on all rows but one fold gives the model of this fold.
	levels := back.Calibration.Quantiles[0].Levels
	bands := make([][][][]float32, test.Len())
	for k := range 10 {
		var others []int
		for i, f := range folds {
			if f != k {
				others = append(others, i)
			}
		}
		one := in
		one.IntervalFit, one.SkipDetector = "fit", true
		one.Cal, one.CalTargets = in.Cal, in.CalTargets
		// The features are scaled on the fit rows, which are therefore given again as rows that
		// the interval model does not read.
		one.Batch, one.Targets = in.Cal.Select(others), rows.Select(in.CalTargets, others)
		one.Base.Standardised = false
		mean, deviation := b.Scaling()
		scaled := func(x ood.Batch) ood.Batch {
			x.Features = rows.Scaling{Mean: mean, Deviation: deviation}.Apply(x.Features)
			return x
		}
		one.Batch, one.Cal = scaled(one.Batch), scaled(one.Cal)
		for i, r := range mustPredict(t, mustFit(t, one), scaled(test), attach.PredictOptions{Levels: levels}) {
			var band []float32
			for _, v := range r.Targets[0].Quantiles {
				band = append(band, float32(v))
			}
			bands[i] = append(bands[i], [][]float32{band})
		}
	}
	v, err := calibrate.NewCrossIntervals(back.Calibration.Quantiles, folds, calibrate.IntervalOptions{}, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range mustPredict(t, back, test, attach.PredictOptions{Level: 0.9}) {
		var lower, upper [1]float64
		v.Predict(lower[:], upper[:], bands[i])
		if got := r.Targets[0]; math.Abs(got.Lower-lower[0]) > 1e-5 || math.Abs(got.Upper-upper[0]) > 1e-5 {
			t.Errorf("row %d: [%v, %v], want [%v, %v]", i, got.Lower, got.Upper, lower[0], upper[0])
		}
	}
}

// TestCrossGuarantee checks the guaranteed coverage against bounds that are computed by hand.
func TestCrossGuarantee(t *testing.T) {
	folds := func(n, k int) (all []int) {
		for i := range n {
			all = append(all, i%k)
		}
		return all
	}
	for _, c := range []struct {
		folds       []int
		level, want float64
	}{
		{nil, 0.9, 0.9},
		{folds(100, 10), 0.9, 1 - 0.2 - 0.9/11},
		{folds(10, 10), 0.9, 0.8},                                // jackknife+
		{folds(101, 10), 0.9, 1 - 2*(0.1*102+9)/111.},            // folds of different sizes
		{folds(100_000, 10), 0.9, 1 - 2*(0.1*100_001+9)/100_010}, // large folds
		{folds(12, 5), 0.5, 0},
	} {
		if got := (attach.Calibration{Folds: c.folds}).LeastCoverage(c.level); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%d rows: %v, want %v", len(c.folds), got, c.want)
		}
	}
	b := mustFit(t, crossFit(rand.New(rand.NewPCG(23, 1)), 50))
	if text := b.Guarantee(); !strings.Contains(text, "at least 72.7 %, and is about 90 % in practice") {
		t.Error(text)
	}
}

func TestCrossRefuse(t *testing.T) {
	rng := rand.New(rand.NewPCG(24, 1))
	b := mustFit(t, crossFit(rng, 30))
	for want, o := range map[string]attach.PredictOptions{
		"Smoothed cannot use cross-fitted":               {Smoothed: true},
		"Samples cannot use cross-fitted":                {Samples: 3},
		"the interval score rcp cannot use cross-fitted": {IntervalScore: "rcp"},
		"interval score ridge cannot use cross-fitted":   {IntervalScore: "ridge"},
	} {
		if _, err := b.Predictor(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for want, change := range map[string]func(in *attach.FitOptions){
		"cannot have the score ridge":   func(in *attach.FitOptions) { in.IntervalScore = "ridge" },
		"cannot have the score rcp":     func(in *attach.FitOptions) { in.IntervalScore = "rcp" },
		"cannot be calibrated by group": func(in *attach.FitOptions) { in.CalGroups = make([]string, 30) },
		"cannot have weights":           func(in *attach.FitOptions) { in.TargetRows = in.Cal.Features },
		"two that differ": func(in *attach.FitOptions) {
			in.Cal, in.CalTargets = in.Cal.Slice(0, 1), rows.Select(in.CalTargets, []int{0})
		},
		"no interval model is fitted": func(in *attach.FitOptions) {
			in.SkipIntervals, in.SkipDetector = true, false
			in.IntervalModel, in.IntervalParams = ood.Method{}, nil
		},
	} {
		in := crossFit(rng, 30)
		change(&in)
		if _, err := attach.Fit(t.Context(), in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	file := mustWrite(t, b)
	short := slices.Clone(b.Calibration.Folds[1:])
	int64s := func(list []int) (out []int64) {
		for _, v := range list {
			out = append(out, int64(v))
		}
		return out
	}
	outside := int64s(b.Calibration.Folds)
	outside[3] = 10
	empty := int64s(b.Calibration.Folds)
	for i := range empty {
		empty[i] = min(empty[i], 8)
	}
	for want, change := range map[string]func(map[string][]byte){
		"folds of 29 of 30":   replaceArray("calibration/folds.npy", int64s(short), 29),
		"are in 11 folds":     replaceArray("calibration/folds.npy", outside, 30),
		"are in 9 folds":      replaceArray("calibration/folds.npy", empty, 30),
		"fold 0 of quantile":  replaceText(`"folds": [`+"\n    {", `"folds": [`+"\n    {\n      \"unknown\": 1,"),
		"there are 10 models": func(c map[string][]byte) { replaceArray("calibration/folds.npy", make([]int64, 30), 30)(c) },
	} {
		if _, err := read(resealedBytes(t, file, change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
