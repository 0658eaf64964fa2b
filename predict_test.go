package attach_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/ood"
)

func detectors() []ood.Method {
	return slices.DeleteFunc(attach.Methods(), func(m ood.Method) bool { return m.Needs.Targets })
}

func isClose(a, b, tolerance float64) bool {
	return a == b || math.Abs(a-b) <= tolerance*max(math.Abs(a), math.Abs(b), 1)
}

// TestClassAndConfidence compares the predicted class and its confidence with an explicit
// softmax.
func TestClassAndConfidence(t *testing.T) {
	in := classifier(200)
	b := mustFit(t, in)
	if b.Calibration.Temperature == 0 {
		t.Fatal("labels were given and no temperature was fitted")
	}
	for _, temperature := range []float64{0, 0.5, b.Calibration.Temperature, 4} {
		b.Calibration.Temperature = temperature
		if temperature == 0 {
			temperature = 1
		}
		p := mustPredict(t, b, in.Batch, attach.PredictOptions{})
		for i := range p {
			var sum float64
			probability := make([]float64, 3)
			for j := range probability {
				probability[j] = math.Exp(float64(in.Batch.Logits.Data[3*i+j]) / temperature)
				sum += probability[j]
			}
			best := slices.Index(probability, slices.Max(probability))
			if p[i].Class != best || p[i].Name != in.Base.Classes[best] || !isClose(p[i].Confidence, probability[best]/sum, 1e-12) {
				t.Fatalf("row %d at temperature %v: class %d with %v, want %d with %v",
					i, temperature, p[i].Class, p[i].Confidence, best, probability[best]/sum)
			}
		}
	}
}

func TestOneLogitIsLogistic(t *testing.T) {
	in := classifier(40)
	in.Batch.Logits = matrix(40, 1)
	in.Base.Classes = nil
	for i := range in.Batch.Logits.Data {
		in.Batch.Logits.Data[i] = float32(i-20) / 4
		in.Batch.Labels[i] = min(in.Batch.Labels[i], 1)
	}
	in.Detector = method("entropy")
	b := mustFit(t, in)
	if b.Base.Outputs != 1 || b.Calibration.Temperature == 0 {
		t.Errorf("outputs %d, temperature %v", b.Base.Outputs, b.Calibration.Temperature)
	}
	b.Calibration.Temperature = 0
	p := mustPredict(t, b, in.Batch, attach.PredictOptions{})
	var scores []float64
	for _, row := range p {
		scores = append(scores, row.Score)
	}
	if lowest, highest := slices.Index(scores, slices.Min(scores)), slices.Index(scores, slices.Max(scores)); lowest != 0 || highest != 20 {
		t.Errorf("entropy is least at row %d and largest at %d, want 0 and 20", lowest, highest)
	}
	for i, z := range in.Batch.Logits.Data {
		sigmoid := 1 / (1 + math.Exp(-float64(z)))
		class, confidence := 0, 1-sigmoid
		if z > 0 {
			class, confidence = 1, sigmoid
		}
		if p[i].Class != class || !isClose(p[i].Confidence, confidence, 1e-12) {
			t.Errorf("logit %v: class %d with %v, want %d with %v", z, p[i].Class, p[i].Confidence, class, confidence)
		}
	}
}

// TestPValuesCountCalibrationScores compares p-values with their definition: (1+k)/(1+n), if k
// of n calibration scores are at least as large as the score of the row.
func TestPValuesCountCalibrationScores(t *testing.T) {
	b := mustFit(t, classifier(100))
	batch := blob(9, 50, 8, 3, 0.5)
	p := mustPredict(t, b, batch, attach.PredictOptions{Alpha: 0.3})
	flags := 0
	for i, row := range p {
		atLeast := 0
		for _, c := range b.Calibration.OOD {
			if c >= row.Score {
				atLeast++
			}
		}
		want := float64(1+atLeast) / float64(1+b.Calibration.NCal)
		if row.PValue != want || row.Flag != (want <= 0.3) {
			t.Errorf("row %d: p-value %v, flag %v; want %v", i, row.PValue, row.Flag, want)
		}
		if row.Flag {
			flags++
		}
	}
	if flags == 0 || flags == len(p) {
		t.Errorf("%d of %d rows are flagged: the test says nothing", flags, len(p))
	}
}

// TestFarRowsAreFlagged checks that rows far from the fit rows are flagged, and
// in-distribution rows only at the requested rate.
func TestFarRowsAreFlagged(t *testing.T) {
	in := classifier(2000)
	in.DetectorParams = ood.Params{"unit_norm": false}
	b := mustFit(t, in)
	fractionFlagged := func(batch ood.Batch) float64 {
		p := mustPredict(t, b, batch, attach.PredictOptions{})
		n := 0.0
		for _, row := range p {
			if row.Flag {
				n++
			}
		}
		return n / float64(len(p))
	}
	if flagged := fractionFlagged(blob(5, 500, 8, 3, 20)); flagged < 0.9 {
		t.Errorf("%v of far rows are flagged", flagged)
	}
	// With 400 calibration rows, the false-alarm rate has a standard deviation of 0.011. The
	// count over 2,000 new rows adds 0.005.
	if flagged := fractionFlagged(blob(6, 2000, 8, 3, 0)); math.Abs(flagged-0.05) > 0.05 {
		t.Errorf("%v of in-distribution rows are flagged, want about .05", flagged)
	}
}

// TestIntervalsCover checks that intervals cover even if the interval model fits badly. On
// average over sets of n calibration rows, they must cover a fraction ⌈level(n+1)⌉/(n+1) of
// new rows.
func TestIntervalsCover(t *testing.T) {
	const trials, rows, testRows = 40, 100, 200
	for _, level := range []float64{0.8, 0.9, 0.83} {
		var coverages []float64
		for seed := range uint64(trials) {
			in := regressor(seed, rows, 2)
			in.CalFraction = 0.5
			in.SkipDetector = true
			b := mustFit(t, in)
			test := regressor(seed+1000, testRows, 2)
			p := targetsOf(mustPredict(t, b, test.Batch, attach.PredictOptions{Level: level}))
			inside := 0.0
			for i, y := range test.Targets.Data {
				if p[i].Lower <= float64(y) && float64(y) <= p[i].Upper {
					inside++
				}
			}
			coverages = append(coverages, inside/float64(len(p)))
		}
		mean, sd := moments(coverages)
		n := rows / 2.0
		want := math.Ceil(level*(n+1)-1e-9) / (n + 1)
		if tolerance := 4 * sd / math.Sqrt(trials); math.Abs(mean-want) > tolerance {
			t.Errorf("level %v: coverage %.4f, want %.4f ± %.4f", level, mean, want, tolerance)
		}
	}
}

func moments(v []float64) (mean, sd float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		sd += (x - mean) * (x - mean) / float64(len(v)-1)
	}
	return mean, math.Sqrt(sd)
}

// TestTooFewCalibrationRows checks that intervals are infinite and no row is flagged at a
// level that 10 calibration rows cannot guarantee.
func TestTooFewCalibrationRows(t *testing.T) {
	in := regressor(1, 50, 1)
	b := mustFit(t, in)
	if b.Calibration.NCal != 10 {
		t.Fatalf("%d calibration rows, want 10", b.Calibration.NCal)
	}
	p := mustPredict(t, b, in.Batch, attach.PredictOptions{Level: 0.95})
	for i, row := range p {
		if !math.IsInf(row.Targets[0].Lower, -1) || !math.IsInf(row.Targets[0].Upper, 1) || row.Flag {
			t.Fatalf("row %d: %+v; want all of the line and no flag", i, row)
		}
	}
	p = mustPredict(t, b, in.Batch, attach.PredictOptions{Level: 0.9})
	if math.IsInf(p[0].Targets[0].Lower, 0) || math.IsInf(p[0].Targets[0].Upper, 0) {
		t.Error("ten calibration rows are enough for a level of .9")
	}
}

func TestQuantilesAndValue(t *testing.T) {
	in := regressor(1, 100, 2)
	b := mustFit(t, in)
	levels := []float64{0.9, 0.1, 0.5, 0.025}
	p := targetsOf(mustPredict(t, b, in.Batch, attach.PredictOptions{Levels: levels}))
	want := b.IntervalModel.Scorer().Quantiles(in.Batch.Features, levels)
	for i, v := range want.Data {
		if p[i/4].Quantiles[i%4] != float64(v) {
			t.Fatalf("quantile %d is %v, want the head's %v", i, p[i/4].Quantiles[i%4], v)
		}
	}
	for i, v := range in.Batch.Logits.Data {
		if p[i].Value != float64(v) {
			t.Fatalf("value %d is %v, want the network's %v", i, p[i].Value, v)
		}
		if p[i].Median != p[i].Quantiles[2] {
			t.Fatalf("median %d is %v, want the quantile at .5, %v", i, p[i].Median, p[i].Quantiles[2])
		}
		if !(p[i].Lower <= p[i].Upper) {
			t.Fatalf("interval %d is [%v, %v]", i, p[i].Lower, p[i].Upper)
		}
	}
	if len(p) != 2*100 {
		t.Errorf("%d targets of 100 rows", len(p))
	}
}

// TestBlocks checks that predicting rows block by block gives the same results as predicting
// them at once.
func TestBlocks(t *testing.T) {
	in := regressor(1, 100, 1)
	b := mustFit(t, in)
	o := attach.PredictOptions{Levels: []float64{0.2}}
	atOnce := mustPredict(t, b, in.Batch, o)
	predictor, err := b.Predictor(o)
	if err != nil {
		t.Fatal(err)
	}
	for lo := 0; lo < 100; lo += 30 {
		hi := min(lo+30, 100)
		p, err := predictor.Predict(context.Background(), attach.Rows{Batch: in.Batch.Slice(lo, hi)})
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range p {
			want := atOnce[lo+i]
			if !isClose(row.Score, want.Score, 1e-6) || !isClose(row.Targets[0].Lower, want.Targets[0].Lower, 1e-5) ||
				!isClose(row.Targets[0].Quantiles[0], want.Targets[0].Quantiles[0], 1e-5) {
				t.Fatalf("row %d differs from the prediction at once", lo+i)
			}
		}
	}
	empty, err := predictor.Predict(context.Background(), attach.Rows{Batch: in.Batch.Slice(0, 0)})
	if err != nil || len(empty) != 0 {
		t.Errorf("an empty block gives %v, %v", empty, err)
	}
}

func TestPredictErrors(t *testing.T) {
	classes, values := mustFit(t, classifier(50)), mustFit(t, regressor(1, 50, 1))
	withoutLogits := regressor(1, 50, 2)
	withoutLogits.Batch.Logits = blas32.General{}
	withoutDetector := mustFit(t, modified(regressor(1, 50, 3), func(in *attach.FitOptions) { in.SkipDetector, in.Detector = true, ood.Method{} }))
	good := blob(2, 5, 8, 3, 0)
	broken := blob(2, 5, 8, 3, 0)
	broken.Features.Data[8*3+1] = float32(math.NaN())
	tests := []struct {
		name  string
		b     *attach.Bundle
		batch ood.Batch
		o     attach.PredictOptions
		want  string
	}{
		{"width", classes, blob(2, 5, 7, 3, 0), attach.PredictOptions{}, "7 features, but the fit used 8"},
		{"logits", classes, blob(2, 5, 8, 4, 0), attach.PredictOptions{}, "4 logits, but the fit used 3"},
		{"logits beside targets", mustFit(t, withoutLogits), regressor(2, 5, 3).Batch, attach.PredictOptions{}, "the rows have 3 logits, but the interval model predicts 2 targets"},
		{"no features", classes, ood.Batch{Logits: good.Logits}, attach.PredictOptions{}, "needs features: the rows to predict have none"},
		{"no features of a quantile head", withoutDetector, ood.Batch{Logits: good.Logits}, attach.PredictOptions{}, "no features"},
		{"quantiles of a classifier", classes, good, attach.PredictOptions{Levels: []float64{0.5}}, "there is no interval model; quantiles need one, fitted for regression"},
		{"quantile level", values, ood.Batch{}, attach.PredictOptions{Levels: []float64{1}}, "quantile level 1 "},
		{"level", values, ood.Batch{}, attach.PredictOptions{Level: 95}, "level 95"},
		{"alpha", values, ood.Batch{}, attach.PredictOptions{Alpha: -1}, "false-alarm rate -1"},
		{"NaN", classes, broken, attach.PredictOptions{}, "row 3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := predict(tt.b, attach.Rows{Batch: tt.batch}, tt.o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want it to say %q", err, tt.want)
			}
		})
	}
	_, err := predict(classes, attach.Rows{Batch: broken}, attach.PredictOptions{})
	if row, _, ok := attach.NotFinite(err); !ok || row != 3 {
		t.Errorf("error is %v, want one of row 3", err)
	}
	if _, _, ok := attach.NotFinite(errors.New("something else")); ok {
		t.Error("any error is one of a number")
	}
	var need *ood.NeedError
	if _, err := predict(classes, attach.Rows{Batch: ood.Batch{Logits: good.Logits}}, attach.PredictOptions{}); !errors.As(err, &need) || need.Need != (ood.Needs{Features: true}) {
		t.Errorf("error is %v, want a *ood.NeedError of features", err)
	}
	for _, labels := range [][]int{{1}, {0, 1, 2, 9, -1}} {
		labelled := attach.Rows{Batch: good}
		labelled.Labels = labels
		if _, err := predict(classes, labelled, attach.PredictOptions{}); err != nil {
			t.Errorf("labels %v, which no prediction is made of: %v", labels, err)
		}
		p, err := classes.Predictor(attach.PredictOptions{})
		if err != nil {
			t.Fatal(err)
		}
		blocks := func(yield func(attach.Rows, error) bool) { yield(labelled, nil) }
		if _, err := evaluate.Rows(context.Background(), p, blocks, evaluate.Options{}); err == nil || !strings.Contains(err.Error(), "label") {
			t.Errorf("evaluated on labels %v: %v", labels, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	predictor, err := classes.Predictor(attach.PredictOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := predictor.Predict(ctx, attach.Rows{Batch: good}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want %v", err, context.Canceled)
	}
	for _, empty := range []*attach.Predictor{nil, {}} {
		if _, err := empty.Predict(t.Context(), attach.Rows{Batch: good}); err == nil || !strings.Contains(err.Error(), "the predictor is empty") {
			t.Errorf("of an empty predictor the error is %v", err)
		}
		if _, err := evaluate.Rows(t.Context(), empty, nil, evaluate.Options{}); err == nil || !strings.Contains(err.Error(), "the predictor is empty") {
			t.Errorf("evaluated, the error is %v", err)
		}
	}
}

func TestPredictRefusesGroups(t *testing.T) {
	for _, in := range []attach.FitOptions{classifier(60), modified(regressor(1, 60, 1), func(in *attach.FitOptions) { in.SkipIntervals = true })} {
		_, err := predict(mustFit(t, in), attach.Rows{Batch: in.Batch.Slice(0, 3), Groups: []string{"a"}}, attach.PredictOptions{})
		if err == nil || !strings.Contains(err.Error(), "groups") {
			t.Errorf("%s: %v", in.Base.Task, err)
		}
	}
}

// TestNoScore checks that NoScore changes only the score, the p-value and the flag of a
// prediction.
func TestNoScore(t *testing.T) {
	b, batch := mustFit(t, classifier(200)), blob(9, 50, 8, 3, 0)
	scored, unscored := mustPredict(t, b, batch, attach.PredictOptions{}), mustPredict(t, b, batch, attach.PredictOptions{NoScore: true})
	for i, p := range unscored {
		if !math.IsNaN(p.Score) || p.PValue != 1 || p.Flag {
			t.Fatalf("row %d has score %v, p-value %v and flag %v", i, p.Score, p.PValue, p.Flag)
		}
		scored[i].Score, scored[i].PValue, scored[i].Flag = p.Score, p.PValue, p.Flag
	}
	if !samePredictions(scored, unscored) {
		t.Error("more than scores differ")
	}
	if _, err := b.Predictor(attach.PredictOptions{NoScore: true, MaxError: .1}); err == nil || !strings.Contains(err.Error(), "NoScore") {
		t.Errorf("with a maximum error: %v", err)
	}
}

// TestIntervalsOfGroup checks that a group without calibration rows has infinite intervals,
// and another group has finite ones.
func TestIntervalsOfGroup(t *testing.T) {
	in := regressor(1, 300, 1)
	in.Groups = make([]string, 300)
	for i := range in.Groups {
		in.Groups[i] = string("ab"[i%2])
	}
	p, err := mustFit(t, in).Predictor(attach.PredictOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bands := [][]float32{make([]float32, len(p.Bundle().Calibration.Quantiles[0].Levels))}
	for group, want := range map[string]bool{"a": false, "c": true} {
		lower, upper := []float64{0}, []float64{0}
		p.Intervals(group).Predict(lower, upper, bands, 0)
		if infinite := math.IsInf(lower[0], -1) && math.IsInf(upper[0], 1); infinite != want {
			t.Errorf("group %s: %v to %v", group, lower[0], upper[0])
		}
	}
}

// TestPredictionJSON checks the JSON keys and values of all kinds of predictions.
func TestPredictionJSON(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for want, p := range map[string]attach.Prediction{
		`{"class":2,"class_name":"\u003cé","confidence":0.5,"set":[],"set_size":0,"class_p_value":[1,null],"ood_score":null,"p_value":0.01,"flag":true}`: {
			Class: 2, Name: "<é", Confidence: .5, Set: []int{}, ClassPValues: []float64{1, nan}, Score: inf, PValue: .01, Flag: true},
		`{"class":0,"confidence":1,"confidence_low":0.25,"confidence_high":0.75,"set":[0,3],"set_size":2,"ood_score":-1.5,"p_value":1,"flag":false,"accept":true}`: {
			Confidence: 1, ConfidenceBounds: [2]float64{.25, .75}, Set: []int{0, 3}, Score: -1.5, PValue: 1, Accept: true},
		`{"median":2,"lower":null,"upper":3,"quantiles":[null,1],"samples":[4]}`: {
			Class: -1, Targets: []attach.Target{{Value: nan, Median: 2, Lower: -inf, Upper: 3, Quantiles: []float64{-inf, 1}, Samples: []float64{4}}}, Score: nan, PValue: 1},
		`{"prediction_0":1,"median_0":1,"lower_0":0,"upper_0":2,"prediction_1":2,"median_1":2,"lower_1":1,"upper_1":3}`: {
			Class: -1, Targets: []attach.Target{{Value: 1, Median: 1, Upper: 2}, {Value: 2, Median: 2, Lower: 1, Upper: 3}}, Score: nan, PValue: 1},
		`{"prediction":1}`: {Class: -1, Targets: []attach.Target{{Value: 1, Median: nan, Lower: nan, Upper: nan}}, Score: nan, PValue: 1},
		`{}`:               {Class: -1, Score: nan, PValue: 1},
	} {
		if got, err := json.Marshal(p); err != nil || string(got) != want {
			t.Errorf("got %s, want %s; %v", got, want, err)
		}
	}
}
