package attach_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// shiftedRegressor returns rows of a regressor with one informative feature of the given mean.
// The deviation of the targets grows with this feature.
func shiftedRegressor(seed uint64, n int, mean float64) (ood.Batch, blas32.General) {
	rng := rand.New(rand.NewPCG(seed, 17))
	b, y := ood.Batch{Features: matrix(n, 3), Logits: matrix(n, 1)}, matrix(n, 1)
	for i := range n {
		x := mean + rng.NormFloat64()
		copy(rows.Row(b.Features, i), []float32{float32(x), float32(rng.NormFloat64()), float32(rng.NormFloat64())})
		b.Logits.Data[i], y.Data[i] = float32(x), float32(x+math.Exp(x/2)*rng.NormFloat64())
	}
	return b, y
}

// shiftedClassifier returns rows of a classifier whose labels are noisier if the first feature
// is large. This feature has the given mean.
func shiftedClassifier(seed uint64, n int, mean float64) ood.Batch {
	rng := rand.New(rand.NewPCG(seed, 19))
	b := ood.Batch{Features: matrix(n, 3), Logits: matrix(n, 3), Labels: make([]int, n)}
	for i := range n {
		x := mean + rng.NormFloat64()
		class := rng.IntN(3)
		copy(rows.Row(b.Features, i), []float32{float32(x), float32(class), float32(rng.NormFloat64())})
		rows.Row(b.Logits, i)[class] = 3
		b.Labels[i] = class
		if rng.Float64() < .25/(1+math.Exp(-2*x)) {
			b.Labels[i] = (class + 1 + rng.IntN(2)) % 3
		}
	}
	return b
}

// weightedRegressor returns options of a regressor whose target rows have other inputs than
// the calibration rows.
func weightedRegressor(n int) attach.FitOptions {
	in := regressor(1, 10, 1)
	in.Batch, in.Targets = shiftedRegressor(1, 200, 0)
	in.Cal, in.CalTargets = shiftedRegressor(2, n, 0)
	target, _ := shiftedRegressor(3, n, 1)
	in.TargetRows = target.Features
	return in
}

// TestWeightsRestoreCoverage checks coverage and false alarms on rows like the target rows, with
// weights and without.
func TestWeightsRestoreCoverage(t *testing.T) {
	const tests = 4000
	in := weightedRegressor(1500)
	in.Base.Standardised = true
	fresh, y := shiftedRegressor(4, tests, 1)
	var covered, flagged [2]float64
	for k := range 2 {
		for i, p := range mustPredict(t, mustFit(t, in), fresh, attach.PredictOptions{}) {
			if v := float64(y.Data[i]); p.Targets[0].Lower <= v && v <= p.Targets[0].Upper {
				covered[k] += 1. / tests
			}
			if p.Flag {
				flagged[k] += 1. / tests
			}
		}
		in.TargetRows = blas32.General{}
	}
	t.Logf("coverage is %.3f with weights and %.3f without; false alarms are %.3f and %.3f", covered[0], covered[1], flagged[0], flagged[1])
	if math.Abs(covered[0]-.9) > .025 || covered[1] > .85 {
		t.Errorf("coverage is %.3f with weights and %.3f without", covered[0], covered[1])
	}
	if math.Abs(flagged[0]-.05) > .025 || flagged[1] < .08 {
		t.Errorf("the false-alarm rate is %.3f with weights and %.3f without", flagged[0], flagged[1])
	}
}

// TestWeightedSets checks that sets, class p-values and p-values by class use the weight of each
// row.
func TestWeightedSets(t *testing.T) {
	const tests = 4000
	in := classifier(10)
	in.Base.Classes = nil
	in.Batch, in.Cal = shiftedClassifier(1, 200, 0), shiftedClassifier(2, 1500, -1)
	in.TargetRows = shiftedClassifier(3, 1500, 0).Features
	b, fresh := mustFit(t, in), shiftedClassifier(4, tests, 0)
	o := attach.PredictOptions{Sets: "aps", Level: .88, ClassPValues: true, FlagByClass: true}
	predictions := mustPredict(t, b, fresh, o)
	var covered float64
	for i, p := range predictions {
		if slices.Contains(p.Set, fresh.Labels[i]) {
			covered += 1. / tests
		}
		for class, v := range p.ClassPValues {
			if (v > 1-o.Level) != slices.Contains(p.Set, class) {
				t.Fatalf("row %d: class %d has the p-value %v, and the set is %v", i, class, v, p.Set)
			}
		}
	}
	if covered < .86 {
		t.Errorf("the coverage of sets is %.3f", covered)
	}
	b.Calibration.Weights, b.Calibration.Ratio = nil, nil
	if samePredictions(predictions, mustPredict(t, b, fresh, o)) {
		t.Error("weights do not change predictions")
	}
}

// TestWeightsRoundTrip checks that a file keeps weights, and that files without weights have
// the format that older programs read.
func TestWeightsRoundTrip(t *testing.T) {
	in := weightedRegressor(200)
	b := mustFit(t, in)
	content := mustWrite(t, b)
	again, err := read(content)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(b.Calibration, again.Calibration) || !bytes.Equal(content, mustWrite(t, again)) {
		t.Error("the calibration differs after reading")
	}
	if !samePredictions(mustPredict(t, b, in.Batch, attach.PredictOptions{}), mustPredict(t, again, in.Batch, attach.PredictOptions{})) {
		t.Error("predictions differ after reading")
	}
	if !bytes.Contains(content, []byte(`"format": 5`)) {
		t.Error("a file with weights does not have format 5")
	}
	if !strings.Contains(b.Guarantee(), "approximately") {
		t.Errorf("the guarantee is %q", b.Guarantee())
	}
	in.TargetRows = blas32.General{}
	if content := mustWrite(t, mustFit(t, in)); !bytes.Contains(content, []byte(`"format": 1`)) || bytes.Contains(content, []byte("weights")) {
		t.Error("a file without weights does not have format 1, or names weights")
	}
}

// TestWeightsOfIntervalRows checks that intervals have the weights of the calibration rows that
// calibrate them, if the others teach the interval model.
func TestWeightsOfIntervalRows(t *testing.T) {
	in := weightedRegressor(600)
	in.IntervalFit = "calibration"
	b := mustFit(t, in)
	q := b.Calibration.Quantiles[0]
	if len(q.Weights) != b.Calibration.NInterval || len(b.Calibration.Weights) != 600 {
		t.Fatalf("there are %d weights for %d of 600 rows", len(q.Weights), b.Calibration.NInterval)
	}
	for i, w := range q.Weights {
		k := slices.Index(in.CalTargets.Data, q.Y[i])
		if b.Calibration.Weights[k] != w {
			t.Fatalf("row %d has the weight %v, and as calibration row %d the weight %v", i, w, k, b.Calibration.Weights[k])
		}
	}
	content := mustWrite(t, b)
	again, err := read(content)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(b.Calibration, again.Calibration) || !bytes.Equal(content, mustWrite(t, again)) {
		t.Error("the calibration differs after reading")
	}
}

// TestDamagedWeights checks that weights and density ratios that no fit writes are errors.
func TestDamagedWeights(t *testing.T) {
	good := mustWrite(t, mustFit(t, weightedRegressor(200)))
	for name, array := range map[string]struct {
		name string
		data []float64
	}{
		"negative weight":      {"weights", slices.Concat(slices.Repeat([]float64{1}, 199), []float64{-1})},
		"infinite weight":      {"weights", slices.Concat(slices.Repeat([]float64{1}, 199), []float64{math.Inf(1)})},
		"too few weights":      {"weights", slices.Repeat([]float64{1}, 199)},
		"short ratio":          {"ratio", []float64{1, 2, 3}},
		"empty ratio":          {"ratio", []float64{}},
		"infinite coefficient": {"ratio", []float64{1, math.Inf(1), 2, 3}},
	} {
		names, content := unpack(t, good)
		var b bytes.Buffer
		if err := npy.Write(&b, rows.Vector(array.data)); err != nil {
			t.Fatal(err)
		}
		member := "calibration/" + array.name + ".npy"
		content[member] = b.Bytes()
		seal(content, member)
		if _, err := read(pack(t, names, content, 0)); !errors.Is(err, attach.ErrDamaged) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// TestWeightsRefused checks options that weights do not support, and target rows that give no
// weights.
func TestWeightsRefused(t *testing.T) {
	b := mustFit(t, weightedRegressor(200))
	if _, err := b.Predictor(attach.PredictOptions{Smoothed: true}); err == nil || !strings.Contains(err.Error(), "TargetRows") {
		t.Errorf("the error is %v", err)
	}
	in := classifier(10)
	in.Batch, in.Cal, in.TargetRows = shiftedClassifier(1, 200, 0), shiftedClassifier(2, 200, 0), shiftedClassifier(3, 200, .5).Features
	for _, o := range []attach.PredictOptions{{MaxError: .1}, {VennAbers: true}} {
		if _, err := mustFit(t, in).Predictor(o); err == nil || !strings.Contains(err.Error(), "TargetRows") {
			t.Errorf("%+v: the error is %v", o, err)
		}
	}
	far, _ := shiftedRegressor(3, 200, 5)
	infinite := matrix(100, 3)
	infinite.Data[4] = float32(math.Inf(1))
	for want, target := range map[string]blas32.General{
		"target rows have 2 features": matrix(100, 2), "are worth only": far.Features, "row 1": infinite, "29 target rows": matrix(29, 3),
	} {
		in := weightedRegressor(200)
		in.TargetRows = target
		if _, err := attach.Fit(context.Background(), in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, without %q", err, want)
		}
	}
}

// shareRows returns rows of a classifier with two classes, of which class 1 has this share. The
// probabilities of the classifier are right if the share is 0.15.
func shareRows(seed uint64, n int, share float64) ood.Batch {
	rng := rand.New(rand.NewPCG(seed, 29))
	b := ood.Batch{Features: matrix(n, 3), Logits: matrix(n, 2), Labels: make([]int, n)}
	for i := range n {
		if rng.Float64() < share {
			b.Labels[i] = 1
		}
		x := rng.NormFloat64() + float64(2*b.Labels[i]-1)
		z := 2*x + math.Log(.15/.85)
		copy(rows.Row(b.Features, i), []float32{float32(z), float32(rng.NormFloat64()), float32(rng.NormFloat64())})
		rows.Row(b.Logits, i)[1] = float32(z)
	}
	return b
}

// shareClassifier returns options of a classifier whose class 1 is more frequent among the target
// rows than among the calibration rows.
func shareClassifier(n int) attach.FitOptions {
	in := classifier(10)
	in.Base.Classes, in.Base.Outputs = nil, 2
	in.Batch, in.Cal = shareRows(1, 200, .5), shareRows(2, n, .15)
	target := shareRows(3, n, .8)
	in.TargetRows, in.TargetLogits = target.Features, target.Logits
	return in
}

// TestLabelShift checks coverage, false alarms and confidence on rows with the shares of the
// target rows, with weights by class and without, and that a file keeps the shares.
func TestLabelShift(t *testing.T) {
	const tests = 4000
	in := shareClassifier(1500)
	fresh := shareRows(4, tests, .8)
	b := mustFit(t, in)
	o := attach.PredictOptions{Sets: "lac", ClassPValues: true}
	var covered, flagged, gap [2]float64
	for k := range 2 {
		for i, p := range mustPredict(t, mustFit(t, in), fresh, o) {
			right := 0.
			if p.Class == fresh.Labels[i] {
				right = 1
			}
			gap[k] += (p.Confidence - right) / tests
			if slices.Contains(p.Set, fresh.Labels[i]) {
				covered[k] += 1. / tests
			}
			if p.Flag {
				flagged[k] += 1. / tests
			}
		}
		in.TargetRows, in.TargetLogits = blas32.General{}, blas32.General{}
	}
	t.Logf("with weights and without, coverage is %.3f, false alarms %.3f, and confidence minus accuracy %.3f", covered, flagged, gap)
	if covered[0] < .88 || covered[1] > .85 {
		t.Errorf("the coverage of sets is %.3f with weights and %.3f without", covered[0], covered[1])
	}
	if flagged[0] > .075 {
		t.Errorf("the false-alarm rate is %.3f", flagged[0])
	}
	if math.Abs(gap[0]) > .03 || math.Abs(gap[1]) < .05 {
		t.Errorf("confidence minus accuracy is %.3f with weights and %.3f without", gap[0], gap[1])
	}
	content := mustWrite(t, b)
	again, err := read(content)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(b.Calibration, again.Calibration) || !bytes.Equal(content, mustWrite(t, again)) || !bytes.Contains(content, []byte(`"format": 6`)) {
		t.Error("the calibration differs after reading, or the format is not 6")
	}
	if !samePredictions(mustPredict(t, b, fresh, o), mustPredict(t, again, fresh, o)) {
		t.Error("predictions differ after reading")
	}
	if !strings.Contains(b.Guarantee(), "shares of classes") {
		t.Errorf("the guarantee is %q", b.Guarantee())
	}
}

// TestLabelShiftOfOneLogit checks that a classifier with one logit gets the predictions of the
// same classifier with two logits.
func TestLabelShiftOfOneLogit(t *testing.T) {
	in, fresh := shareClassifier(300), shareRows(4, 50, .8)
	o := attach.PredictOptions{Sets: "aps", ClassPValues: true}
	want := mustPredict(t, mustFit(t, in), fresh, o)
	one := func(m blas32.General) blas32.General {
		out := matrix(m.Rows, 1)
		for i := range out.Data {
			out.Data[i] = rows.Row(m, i)[1]
		}
		return out
	}
	in.Base.Outputs = 1
	in.Batch.Logits, in.Cal.Logits, in.TargetLogits, fresh.Logits = one(in.Batch.Logits), one(in.Cal.Logits), one(in.TargetLogits), one(fresh.Logits)
	b := mustFit(t, in)
	if !samePredictions(want, mustPredict(t, b, fresh, o)) {
		t.Error("predictions with one logit differ from those with two")
	}
	if _, err := read(mustWrite(t, b)); err != nil {
		t.Error(err)
	}
}

// TestDamagedLabelShift checks that shares and weights of classes that no fit writes are errors.
func TestDamagedLabelShift(t *testing.T) {
	for name, damage := range map[string]func(c *attach.Calibration){
		"negative share": func(c *attach.Calibration) { c.LabelShift.Shares[0] = -.1 },
		"large error":    func(c *attach.Calibration) { c.LabelShift.Errors[1] = 2 },
		"no weight":      func(c *attach.Calibration) { c.LabelShift.Weights[1] = 0 },
		"three classes":  func(c *attach.Calibration) { c.LabelShift.Weights = append(c.LabelShift.Weights, 1) },
		"one class":      func(c *attach.Calibration) { c.LabelShift.Weights = c.LabelShift.Weights[:1] },
		"p-value":        func(c *attach.Calibration) { c.LabelShift.PValue = 1.5 },
		"no labels":      func(c *attach.Calibration) { c.TrueClasses = calibrate.ClassCalibration{} },
		"two sources": func(c *attach.Calibration) {
			c.Ratio = &calibrate.DensityRatio{Coefficients: make([]float64, 3)}
		},
	} {
		b := mustFit(t, shareClassifier(200))
		damage(&b.Calibration)
		if err := b.Write(io.Discard); err == nil {
			t.Errorf("%s: no error", name)
		} else {
			t.Log(err)
		}
	}
}

// TestLabelShiftRefused checks rows and models for which there are no weights by class.
func TestLabelShiftRefused(t *testing.T) {
	for want, change := range map[string]func(in *attach.FitOptions){
		"a softmax":     func(in *attach.FitOptions) { in.Base.Sigmoid = true },
		"with labels":   func(in *attach.FitOptions) { in.Cal.Labels = nil },
		"row 0":         func(in *attach.FitOptions) { in.TargetLogits.Data[1] = float32(math.NaN()) },
		"have 3":        func(in *attach.FitOptions) { in.TargetLogits = matrix(200, 3) },
		"same features": func(in *attach.FitOptions) { in.TargetRows = matrix(100, 3) },
		"0 features":    func(in *attach.FitOptions) { in.TargetRows = blas32.General{} },
	} {
		in := shareClassifier(200)
		change(&in)
		if _, err := attach.Fit(context.Background(), in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, without %q", err, want)
		}
	}
	in := weightedRegressor(200)
	in.TargetLogits = matrix(200, 1)
	if _, err := attach.Fit(context.Background(), in); err == nil || !strings.Contains(err.Error(), "TargetLogits") {
		t.Errorf("a regressor gives the error %v", err)
	}
}
