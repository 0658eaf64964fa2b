package evaluate_test

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/ood"
)

// TestClassifier compares flags and accuracy with counts of the predictions.
func TestClassifier(t *testing.T) {
	b := mustFit(t, classifier(2000))
	batch := blob(9, 1000, 8, 3, 0)
	e := mustEvaluate(t, b, blocksOf(batch, blas32.General{}, nil), attach.PredictOptions{}, evaluate.Options{Alphas: []float64{.2}})
	var flagged, right, rightFlagged int
	for i, p := range mustPredict(t, b, batch, attach.PredictOptions{}) {
		if p.Class == batch.Labels[i] {
			right++
		}
		if p.Flag {
			flagged++
			if p.Class == batch.Labels[i] {
				rightFlagged++
			}
		}
	}
	if len(e.Flags.ByAlpha) != 2 || e.Flags.ByAlpha[0].Count != flagged || e.Flags.ByAlpha[0].Nominal != .05 || e.Flags.ByAlpha[0].Rows != 1000 {
		t.Errorf("flags %+v, want %d", e.Flags.ByAlpha, flagged)
	}
	if e.Classifier.Accuracy.Count != right || e.Classifier.AccuracyFlagged.Count != rightFlagged || e.Classifier.AccuracyFlagged.Rows != flagged || e.Classifier.AccuracyUnflagged.Rows != 1000-flagged {
		t.Errorf("accuracy %+v, of flagged %+v; want %d and %d", e.Classifier.Accuracy, e.Classifier.AccuracyFlagged, right, rightFlagged)
	}
	if e.Classifier.Calibrated == nil || *e.Classifier.Calibrated.NLL >= *e.Classifier.Uncalibrated.NLL {
		t.Errorf("before %+v, after %+v", e.Classifier.Uncalibrated, e.Classifier.Calibrated)
	}
}

// TestRegressor compares coverage and errors with figures that the test computes from the
// predictions.
func TestRegressor(t *testing.T) {
	b := mustFit(t, regressor(1, 2000, 2))
	test := regressor(2, 1000, 2)
	e := mustEvaluate(t, b, blocksOf(test.Batch, test.Targets, nil), attach.PredictOptions{}, evaluate.Options{Levels: []float64{.5}})
	for k, level := range []float64{.5, .9} {
		p := targetsOf(mustPredict(t, b, test.Batch, attach.PredictOptions{Level: level}))
		for target := range 2 {
			covered, width := 0, 0.
			for i := range 1000 {
				c := p[2*i+target]
				if y := float64(test.Targets.Data[2*i+target]); c.Lower <= y && y <= c.Upper {
					covered++
				}
				width += (c.Upper - c.Lower) / 1000
			}
			got := e.Targets[target].Coverage[k]
			if got.Nominal != level || got.Count != covered || math.Abs(*got.MeanWidth-width) > 1e-9 || len(got.ByDecile) != 10 || got.WorstSlab == nil {
				t.Errorf("target %d at level %v: %+v, want %d of width %v", target, level, got, covered, width)
			}
		}
	}
	for k, got := range e.Targets {
		var square, absolute float64
		value, truth := make([]float64, 1000), make([]float64, 1000)
		for i := range 1000 {
			value[i], truth[i] = float64(test.Batch.Logits.Data[2*i+k]), float64(test.Targets.Data[2*i+k])
			square += (value[i] - truth[i]) * (value[i] - truth[i]) / 1000
			absolute += math.Abs(value[i]-truth[i]) / 1000
		}
		if r2 := stat.RSquaredFrom(value, truth, nil); math.Abs(*got.RMSE-math.Sqrt(square)) > 1e-9 || math.Abs(*got.MAE-absolute) > 1e-9 || math.Abs(*got.R2-r2) > 1e-9 {
			t.Errorf("RMSE %v, MAE %v, R² %v; want %v, %v, %v", *got.RMSE, *got.MAE, *got.R2, math.Sqrt(square), absolute, r2)
		}
		// Count row by row how many targets are covered among the rows in the lowest decile
		// of the model's predictions.
		order := make([]int, 1000)
		floats.Argsort(value, order)
		p := targetsOf(mustPredict(t, b, test.Batch, attach.PredictOptions{}))
		covered := 0
		for _, i := range order[:100] {
			if c, y := p[2*i+k], float64(test.Targets.Data[2*i+k]); c.Lower <= y && y <= c.Upper {
				covered++
			}
		}
		if first := got.Coverage[1].ByDecile[0]; first.Rows != 100 || first.Count != covered {
			t.Errorf("the lowest decile is %+v, want %d of 100", first, covered)
		}
	}
	if len(e.Targets[1].Points) != 1000 || e.Targets[0].PIT == nil || e.Targets[0].PITCalibrated.KSPValue == nil {
		t.Errorf("%+v", e.Targets[1])
	}
}

// TestConfidence compares accuracy, NLL, ECE and AURC with the results of scikit-learn and
// NumPy, which testdata/evaluate.py computed.
func TestConfidence(t *testing.T) {
	var want struct {
		Logits      []float32
		Labels      []int
		Temperature float64
		Accuracy    float64
		NLL, ECE    [2]float64
		AURC        float64
	}
	raw, err := os.ReadFile("testdata/evaluate.json")
	if err == nil {
		err = json.Unmarshal(raw, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := mustFit(t, classifier(200))
	b.Calibration.Temperature = want.Temperature
	n := len(want.Labels)
	batch := blob(9, n, 8, 3, 0)
	batch.Logits.Data, batch.Labels = want.Logits, want.Labels
	c := mustEvaluate(t, b, blocksOf(batch, blas32.General{}, nil), attach.PredictOptions{}, evaluate.Options{}).Classifier
	for _, tt := range []struct {
		name      string
		got, want float64
	}{
		{"accuracy", c.Accuracy.Fraction, want.Accuracy},
		{"NLL before", *c.Uncalibrated.NLL, want.NLL[0]},
		{"NLL after", *c.Calibrated.NLL, want.NLL[1]},
		{"ECE before", c.Uncalibrated.ECE, want.ECE[0]},
		{"ECE after", c.Calibrated.ECE, want.ECE[1]},
		{"AURC", c.AURC, want.AURC},
	} {
		if math.Abs(tt.got-tt.want) > 1e-7 {
			t.Errorf("%s: %v, want %v", tt.name, tt.got, tt.want)
		}
	}
}

// TestSets compares the coverage of sets and the error rate of accepted rows with counts of
// the predictions.
func TestSets(t *testing.T) {
	in := classifier(1000)
	in.Cal = blob(2, 1500, 8, 3, 0)
	b := mustFit(t, in)
	batch := blob(9, 1200, 8, 3, 0)
	o := attach.PredictOptions{Sets: "aps", SetsByClass: true, MaxError: .25}
	e := mustEvaluate(t, b, blocksOf(batch, blas32.General{}, nil), o, evaluate.Options{Levels: []float64{.8}})
	for k, level := range []float64{.8, .9} {
		o.Level = level
		covered, sizes, byClass, accepted, wrong := 0, make([]int, 4), make([]int, 3), 0, 0
		for i, p := range mustPredict(t, b, batch, o) {
			sizes[len(p.Set)]++
			if slices.Contains(p.Set, batch.Labels[i]) {
				covered++
				byClass[batch.Labels[i]]++
			}
			if p.Accept {
				accepted++
				if p.Class != batch.Labels[i] {
					wrong++
				}
			}
		}
		got := e.Classifier.Sets[k]
		if got.Count != covered || got.Nominal != level || !slices.Equal(got.SizeCounts, sizes[:len(got.SizeCounts)]) || got.ByClass[2].Count != byClass[2] || got.WorstSlab == nil {
			t.Errorf("sets at %v: %+v, want %d, %v", level, got, covered, sizes)
		}
		if a, w := e.Classifier.Accepted, e.Classifier.SelectiveError; accepted == 0 || a.Count != accepted || w.Rows != accepted || w.Count != wrong || w.Nominal != .25 {
			t.Errorf("accepted %+v, wrong %+v; want %d and %d", a, w, accepted, wrong)
		}
	}
	kinds := map[string]int{}
	for _, p := range e.Guarantees {
		kinds[p.Kind]++
		if p.Verdict == "violated" {
			t.Errorf("%+v", p)
		}
	}
	if kinds["set_coverage"] != 6 || kinds["selective_error"] != 1 || kinds["false_alarm_rate"] != 3 {
		t.Errorf("guarantees %v", kinds)
	}
}

// TestClassesOfOneName checks that two classes with the same name have separate guarantees,
// each with the calibration rows of its class.
func TestClassesOfOneName(t *testing.T) {
	in := classifier(1000)
	in.Cal = blob(2, 1500, 8, 3, 0)
	rare := slices.Clone(in.Cal.Labels)
	for i := range rare {
		if rare[i] == 1 && i > 20 {
			rare[i] = 0
		}
	}
	in.Cal.Labels = rare
	in.Base.Classes = []string{"crane", "crane", "dog"}
	e := mustEvaluate(t, mustFit(t, in), blocksOf(blob(9, 1200, 8, 3, 0), blas32.General{}, nil), attach.PredictOptions{Sets: "lac", SetsByClass: true}, evaluate.Options{})
	sets := slices.DeleteFunc(e.Guarantees, func(p evaluate.Guarantee) bool { return p.Kind != "set_coverage" })
	if len(sets) != 3 || sets[1].Verdict != "too_few_rows" || !strings.Contains(sets[1].Message, "calibration rows are too few for this guarantee") {
		t.Errorf("%+v", sets)
	}
}

// TestSetsOfAnAccurateModel checks that there is no advice if sets cover more often than
// guaranteed because the model is right that often. Sets that are never empty cover at least
// as often as the model is right.
func TestSetsOfAnAccurateModel(t *testing.T) {
	in := classifier(1000)
	in.Cal = blob(2, 1500, 8, 3, 0)
	b := mustFit(t, in)
	batch := blob(9, 1200, 8, 3, 0)
	for _, tt := range []struct {
		o    attach.PredictOptions
		want string
	}{
		{attach.PredictOptions{Sets: "lac", Level: .5}, "alone is right for"},
		{attach.PredictOptions{Sets: "aps", Level: .5, SetsByClass: true}, "alone is right for"},
		{attach.PredictOptions{Sets: "lac", Level: .5, Smoothed: true}, "guarantee: at least 50 %"},
	} {
		for _, p := range mustEvaluate(t, b, blocksOf(batch, blas32.General{}, nil), tt.o, evaluate.Options{}).Guarantees {
			if p.Kind == "set_coverage" && (p.Verdict != "met" || p.Advice != "" || !strings.Contains(p.Message, tt.want)) {
				t.Errorf("%+v: %+v", tt.o, p)
			}
		}
	}
}

// TestBlocks checks that the evaluation does not depend on how rows are divided into blocks.
func TestBlocks(t *testing.T) {
	in := regressor(1, 500, 2)
	in.Groups = make([]string, 500)
	for i := range in.Groups {
		in.Groups[i] = []string{"a", "", "c"}[i%3]
	}
	b := mustFit(t, in)
	test := regressor(2, 400, 2)
	groups := in.Groups[:400]
	o := attach.PredictOptions{Smoothed: true, Seed: 3}
	single := func(yield func(attach.Rows, error) bool) {
		yield(attach.Rows{Batch: test.Batch, Targets: test.Targets, Groups: groups}, nil)
	}
	inBlocks := mustEvaluate(t, b, blocksOf(test.Batch, test.Targets, groups), o, evaluate.Options{})
	atOnce := mustEvaluate(t, b, single, o, evaluate.Options{})
	if inBlocks.Targets[1].CRPS == nil || math.Abs(*inBlocks.Targets[1].CRPS-*atOnce.Targets[1].CRPS) > 1e-9 {
		t.Errorf("CRPS %v in blocks and %v at once", *inBlocks.Targets[1].CRPS, *atOnce.Targets[1].CRPS)
	}
	for _, e := range []*evaluate.Evaluation{inBlocks, atOnce} {
		for i := range e.Targets { // floating-point sums depend on the order of the numbers
			e.Targets[i].CRPS, e.Targets[i].PinballLoss = nil, nil
		}
	}
	a, _ := json.Marshal(inBlocks)
	if z, err := json.Marshal(atOnce); err != nil || string(a) != string(z) {
		t.Errorf("%s\nand at once\n%s", a, z)
	}
	byGroup := 0
	for _, p := range inBlocks.Guarantees {
		if p.Kind == "interval_coverage" && p.Name != "" {
			byGroup++
		}
	}
	if byGroup != 6 || len(inBlocks.Flags.ByGroup) != 3 {
		t.Errorf("%d guarantees of groups, %+v", byGroup, inBlocks.Flags.ByGroup)
	}
}

// TestVerdicts checks the verdicts for rows that are exchangeable with the calibration rows,
// for rows that are not, and for too few rows.
func TestVerdicts(t *testing.T) {
	in := regressor(1, 2000, 1)
	b := mustFit(t, in)
	in.Cal, in.CalTargets = regressor(7, 1500, 1).Batch, regressor(7, 1500, 1).Targets
	given := mustFit(t, in)
	test := regressor(2, 1500, 1)
	spread := regressor(3, 1500, 1)
	for i := range spread.Targets.Data {
		spread.Targets.Data[i] *= 3
	}
	few := regressor(1, 40, 1)
	for _, tt := range []struct {
		name    string
		b       *attach.Bundle
		rows    attach.FitOptions
		n       int
		verdict string
		advice  string
	}{
		{"good", given, test, 1500, "met", ""},
		{"spread", given, spread, 1500, "violated", "check what changed since calibration"},
		{"spread, split off", b, spread, 1500, "violated", "calibrate with rows that the model was not trained on"},
		{"few", given, test, 20, "too_few_rows", "evaluate on "},
		{"a high level", given, test, 1500, "too_few_rows", "calibrate with at least 9,999 rows, and with 190,000 to tell whether the guarantee is met"},
		{"few calibration rows", mustFit(t, few), test, 1500, "too_few_rows", "calibrate with at least 9 rows"},
	} {
		predictor := attach.PredictOptions{}
		if tt.name == "few calibration rows" {
			predictor.Level = .9
			tt.b.Calibration.NCal = 8
		}
		if tt.name == "a high level" {
			predictor.Level = .9999
		}
		targets := tt.rows.Targets
		targets.Rows = tt.n
		e := mustEvaluate(t, tt.b, blocksOf(tt.rows.Batch.Slice(0, tt.n), targets, nil), predictor, evaluate.Options{})
		for _, p := range e.Guarantees {
			if p.Kind == "interval_coverage" && p.Nominal > .999 && !strings.Contains(p.Message, "guarantee: at least 99.99 %)") {
				t.Errorf("%s: %s", tt.name, p.Message)
			}
			if p.Kind == "interval_coverage" && (p.Verdict != tt.verdict || !strings.HasPrefix(p.Advice, tt.advice) || (p.Advice == "") != (tt.advice == "")) {
				t.Errorf("%s: %+v", tt.name, p)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	classes, values := mustFit(t, classifier(100)), mustFit(t, regressor(1, 100, 1))
	labelled, unlabelled, noLogits := blob(9, 10, 8, 3, 0), blob(9, 10, 8, 3, 0), blob(9, 10, 8, 3, 0)
	unlabelled.Labels, noLogits.Logits = nil, blas32.General{}
	wrong := blob(9, 10, 8, 3, 0)
	wrong.Labels[4] = 3
	oneTarget, twoTargets, noPredictions := regressor(2, 10, 1), regressor(2, 10, 2), regressor(2, 10, 1)
	noPredictions.Batch.Logits = blas32.General{}
	for _, tt := range []struct {
		name string
		b    *attach.Bundle
		rows []attach.Rows
		o    evaluate.Options
		want string
	}{
		{"none", classes, nil, evaluate.Options{}, "no rows to evaluate on"},
		{"labels of some", classes, []attach.Rows{{Batch: labelled}, {Batch: unlabelled}}, evaluate.Options{}, "some rows have labels and others have none"},
		{"label", classes, []attach.Rows{{Batch: labelled}, {Batch: wrong}}, evaluate.Options{}, "row 14: label 3 is out of range"},
		{"groups of some", classes, []attach.Rows{{Batch: labelled, Groups: make([]string, 10)}, {Batch: labelled}}, evaluate.Options{}, "some rows have groups and others have none"},
		{"groups", classes, []attach.Rows{{Batch: labelled, Groups: []string{"a"}}}, evaluate.Options{}, "1 group for 10 rows"},
		{"targets", values, []attach.Rows{{Batch: oneTarget.Batch, Targets: twoTargets.Targets}}, evaluate.Options{}, "2 targets, and the model predicts 1"},
		{"logits of some", classes, []attach.Rows{{Batch: labelled}, {Batch: noLogits}}, evaluate.Options{}, "some rows have logits and others have none"},
		{"logits of some values", values, []attach.Rows{{Batch: oneTarget.Batch, Targets: oneTarget.Targets}, {Batch: noPredictions.Batch, Targets: oneTarget.Targets}}, evaluate.Options{}, "some rows have logits and others have none"},
		{"targets of some", values, []attach.Rows{{Batch: oneTarget.Batch, Targets: oneTarget.Targets}, {Batch: oneTarget.Batch}}, evaluate.Options{}, "some rows have targets and others have none"},
		{"alpha", classes, []attach.Rows{{Batch: labelled}}, evaluate.Options{Alphas: []float64{5}}, "false-alarm rate 5"},
		{"level", values, []attach.Rows{{Batch: oneTarget.Batch}}, evaluate.Options{Levels: []float64{90}}, "level 90"},
		{"others", classes, []attach.Rows{{Batch: labelled}}, evaluate.Options{OOD: func(func(attach.Rows, error) bool) {}}, "no out-of-distribution rows"},
	} {
		predictor, err := tt.b.Predictor(attach.PredictOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = evaluate.Rows(context.Background(), predictor, func(yield func(attach.Rows, error) bool) {
			for _, r := range tt.rows {
				if !yield(r, nil) {
					return
				}
			}
		}, tt.o)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestOOD compares AUROC with its definition: the fraction of pairs in which the OOD row has
// the higher score.
func TestOOD(t *testing.T) {
	b := mustFit(t, classifier(300))
	in, out := blob(9, 100, 8, 3, 0), blob(10, 70, 8, 3, 1)
	e := mustEvaluate(t, b, blocksOf(in, blas32.General{}, nil), attach.PredictOptions{}, evaluate.Options{OOD: blocksOf(out, blas32.General{}, nil)})
	var above float64
	flagged := 0
	for _, o := range mustPredict(t, b, out, attach.PredictOptions{}) {
		if o.Flag {
			flagged++
		}
		for _, i := range mustPredict(t, b, in, attach.PredictOptions{}) {
			if o.Score > i.Score {
				above++
			} else if o.Score == i.Score {
				above += .5
			}
		}
	}
	if o := e.OOD; o.Rows != 70 || math.Abs(o.AUROC-above/7000) > 1e-12 || o.ByAlpha[1].Nominal != .05 || o.ByAlpha[1].Count != flagged {
		t.Errorf("%+v, want %v and %d flagged", o, above/7000, flagged)
	}
}

// TestJoint checks that the guarantee of joint boxes is tested instead of one for each target.
// It also checks the coverage of intervals with one finite end.
func TestJoint(t *testing.T) {
	b := mustFit(t, regressor(1, 1000, 2))
	test := regressor(2, 500, 2)
	o := attach.PredictOptions{Joint: true}
	e := mustEvaluate(t, b, blocksOf(test.Batch, test.Targets, nil), o, evaluate.Options{})
	covered := 0
	for i, p := range mustPredict(t, b, test.Batch, o) {
		inside := true
		for k, prediction := range p.Targets {
			y := float64(test.Targets.Data[2*i+k])
			inside = inside && prediction.Lower <= y && y <= prediction.Upper
		}
		if inside {
			covered++
		}
	}
	if len(e.Joint) != 1 || e.Joint[0].Count != covered || e.Joint[0].MeanWidth != nil || e.Joint[0].Infinite != 0 {
		t.Errorf("%+v, want %d", e.Joint, covered)
	}
	for _, p := range e.Guarantees {
		if p.Kind == "interval_coverage" || p.Kind == "joint_coverage" && p.Count != covered {
			t.Errorf("%+v", p)
		}
	}
	e = mustEvaluate(t, b, blocksOf(test.Batch, test.Targets, nil), attach.PredictOptions{Side: "lower"}, evaluate.Options{})
	if c := e.Targets[0].Coverage[0]; c.MeanWidth != nil || c.Infinite != 500 || math.Abs(c.Fraction-.9) > .06 || e.Targets[0].Points != nil {
		t.Errorf("%+v", c)
	}
}

// TestAccepted checks the results for accepted rows: if no row can be accepted, if there are
// too few rows, and if too many are wrong.
func TestAccepted(t *testing.T) {
	in := classifier(1000)
	in.Cal = blob(2, 1500, 8, 3, 0)
	b := mustFit(t, in)
	batch := blob(9, 1200, 8, 3, 0)
	none := mustEvaluate(t, b, blocksOf(batch, blas32.General{}, nil), attach.PredictOptions{MaxError: .001}, evaluate.Options{})
	if a := none.Classifier.Accepted; a == nil || a.Count != 0 || a.Rows != 1200 || none.Classifier.SelectiveError != nil {
		t.Errorf("accepted %+v, wrong %+v", a, none.Classifier.SelectiveError)
	}
	if !slices.ContainsFunc(none.Notes, func(n evaluate.Note) bool { return strings.HasPrefix(n.Message, "no row is accepted: ") }) {
		t.Errorf("notes %+v", none.Notes)
	}
	few := mustEvaluate(t, b, blocksOf(batch.Slice(0, 40), blas32.General{}, nil), attach.PredictOptions{MaxError: .25}, evaluate.Options{})
	p := few.Guarantees[len(few.Guarantees)-1]
	if p.Kind != "selective_error" || p.Verdict != "too_few_rows" || !regexp.MustCompile(`^evaluate on [1-9][0-9]0? rows or more$`).MatchString(p.Advice) {
		t.Errorf("of 40 rows: %+v", p)
	}
	for i := range batch.Labels {
		if i%3 == 0 {
			batch.Labels[i] = (batch.Labels[i] + 1) % 3
		}
	}
	harder := mustEvaluate(t, b, blocksOf(batch, blas32.General{}, nil), attach.PredictOptions{MaxError: .25}, evaluate.Options{})
	p = harder.Guarantees[len(harder.Guarantees)-1]
	if p.Kind != "selective_error" || p.Verdict != "violated" || !strings.Contains(p.Message, " times as many errors as guaranteed") {
		t.Errorf("%+v", p)
	}
}

// TestMissingParts checks rows with unusually low scores, and regressors without an interval
// model, without logits, or with equal predictions for all rows.
func TestMissingParts(t *testing.T) {
	in := classifier(1000)
	in.Cal = blob(2, 1500, 8, 3, 0)
	low := blob(9, 1200, 8, 3, 0)
	copy(low.Features.Data, make([]float32, len(low.Features.Data)))
	e := mustEvaluate(t, mustFit(t, in), blocksOf(low, blas32.General{}, nil), attach.PredictOptions{}, evaluate.Options{})
	if p := e.Guarantees[1]; p.Verdict != "met" || !strings.HasSuffix(p.Message, "; far fewer than allowed") || p.Advice == "" {
		t.Errorf("%+v", p)
	}

	noIntervals := regressor(1, 500, 1)
	noIntervals.SkipIntervals = true
	test := regressor(2, 300, 1)
	e = mustEvaluate(t, mustFit(t, noIntervals), blocksOf(test.Batch, test.Targets, nil), attach.PredictOptions{}, evaluate.Options{})
	if target := e.Targets[0]; target.RMSE == nil || target.Coverage != nil || target.PIT != nil || target.Points != nil {
		t.Errorf("without a head: %+v", target)
	}

	b := mustFit(t, regressor(1, 500, 1))
	for i := range test.Batch.Logits.Data {
		test.Batch.Logits.Data[i] = 7
	}
	e = mustEvaluate(t, b, blocksOf(test.Batch, test.Targets, nil), attach.PredictOptions{}, evaluate.Options{})
	if deciles := e.Targets[0].Coverage[0].ByDecile; len(deciles) != 1 || deciles[0].Rows != 300 || deciles[0].Name != "7 to 7" {
		t.Errorf("deciles of one number: %+v", deciles)
	}
	test.Batch.Logits = blas32.General{}
	e = mustEvaluate(t, b, blocksOf(test.Batch, test.Targets, nil), attach.PredictOptions{}, evaluate.Options{})
	if target := e.Targets[0]; target.RMSE != nil || target.R2 != nil || len(target.Coverage[0].ByDecile) != 10 || target.CRPS == nil {
		t.Errorf("without logits: %+v", target)
	}
	if _, err := json.Marshal(e); err != nil {
		t.Error(err)
	}
}

// TestOneRow checks that messages about a single row use the singular.
func TestOneRow(t *testing.T) {
	e := mustEvaluate(t, calibratedClassifier(t), blocksOf(blob(9, 1, 8, 3, 0), blas32.General{}, nil), attach.PredictOptions{Sets: "lac"}, evaluate.Options{})
	for _, p := range e.Guarantees {
		if !strings.Contains(p.Message, map[string]string{"false_alarm_rate": " of 1 row is flagged ", "set_coverage": " of 1 label is in its set "}[p.Kind]) {
			t.Error(p.Message)
		}
	}
}

// TestFlagsByClass checks p-values by predicted class if one class has higher scores than the
// others. P-values over all classes flag this class too often. P-values by class must flag it
// at the guaranteed rate, and each predicted class must have a guarantee.
func TestFlagsByClass(t *testing.T) {
	in := classifier(300)
	in.Detector, in.Cal = method("covariance"), widerLastClass(2, 1500)
	b, test := mustFit(t, in), blocksOf(widerLastClass(3, 3000), blas32.General{}, nil)
	byClass := mustEvaluate(t, b, test, attach.PredictOptions{FlagByClass: true}, evaluate.Options{})
	named := map[string]bool{}
	rows := 0
	for _, p := range byClass.Guarantees {
		if p.Nominal != .05 {
			continue
		}
		if p.Kind != "false_alarm_rate" || p.Part != "predicted class" || p.Verdict != "met" {
			t.Errorf("a guarantee is %+v", p)
		}
		named[p.Name] = true
		rows += p.Rows
	}
	if len(named) != 3 || rows != byClass.Rows {
		t.Errorf("guarantees are of %v and %d rows", named, rows)
	}
	// P-values by class are not compared with the scores of all calibration rows.
	if p := byClass.Flags.PValues; p.KSPValue != nil || p.KSStatistic != nil {
		t.Errorf("p-values by class are compared with those of the calibration rows: %v, %v", *p.KSStatistic, *p.KSPValue)
	}
	flagRate := func(o attach.PredictOptions) float64 {
		flagged, of := 0., 0.
		for _, p := range mustPredict(t, b, widerLastClass(3, 3000), o) {
			if p.Class == 2 {
				of++
				if p.Flag {
					flagged++
				}
			}
		}
		return flagged / of
	}
	if all, each := flagRate(attach.PredictOptions{}), flagRate(attach.PredictOptions{FlagByClass: true}); all < .1 || each > .07 {
		t.Errorf("of the hard class %.3f is flagged among all, %.3f among its own", all, each)
	}
	if got := floats.Sum(byClass.Flags.PValues.Expected); math.Abs(got-float64(byClass.Rows)) > 1e-6 {
		t.Errorf("%v p-values are expected of %d rows", got, byClass.Rows)
	}
	var seen int
	for i, p := range mustPredict(t, b, widerLastClass(3, 3000), attach.PredictOptions{FlagByClass: true}) {
		if p.Flag != (p.PValue <= .05) {
			t.Fatalf("row %d has p-value %v, flag %v", i, p.PValue, p.Flag)
		}
		if p.Flag {
			seen++
		}
	}
	for _, r := range byClass.Flags.ByAlpha {
		if r.Nominal == .05 && r.Count != seen {
			t.Errorf("%d are flagged, and %d said to be", seen, r.Count)
		}
	}
}

// widerLastClass returns rows whose features are scaled by 1.3 if the last class is predicted,
// so that these rows have higher scores.
func widerLastClass(seed uint64, n int) ood.Batch {
	b := blob(seed, n, 8, 3, 0)
	for i := range b.Labels {
		if softmax.New(b.Logits.Data[3*i:3*i+3], 1).Top == 2 {
			row := b.Features.Data[i*b.Features.Stride:][:b.Features.Cols]
			for j := range row {
				row[j] *= 1.3
			}
		}
	}
	return b
}

// TestFlagByClassErrors checks that p-values by class need a classifier, and rows with logits.
func TestFlagByClassErrors(t *testing.T) {
	r := mustFit(t, regressor(1, 200, 1))
	if _, err := r.Predictor(attach.PredictOptions{FlagByClass: true}); err == nil || !strings.Contains(err.Error(), "need a classifier") {
		t.Errorf("a regressor: %v", err)
	}
	c := mustFit(t, classifier(200))
	batch := blob(9, 5, 8, 3, 0)
	batch.Logits = blas32.General{}
	if _, err := predict(c, attach.Rows{Batch: batch}, attach.PredictOptions{FlagByClass: true}); err == nil {
		t.Error("rows without logits were accepted")
	}
}

// TestClusters checks that sets by cluster have a guarantee for each cluster of classes.
func TestClusters(t *testing.T) {
	drawClasses := func(seed uint64, n int) ood.Batch { // the predictions of the model are random for rows of every second class
		b, rng := blob(seed, n, 8, 12, 0), rand.New(rand.NewPCG(seed, 17))
		for i, label := range b.Labels {
			b.Logits.Data[12*i+label] += 4
			if label%2 == 1 {
				b.Logits.Data[12*i+rng.IntN(12)] += 6
			}
		}
		return b
	}
	in := classifier(300)
	in.Base.Classes, in.Batch, in.Cal = nil, drawClasses(4, 300), drawClasses(5, 600)
	b, test := mustFit(t, in), drawClasses(6, 2000)
	o := attach.PredictOptions{Sets: "aps", SetsByCluster: true, Level: .8, Seed: 1}
	e := mustEvaluate(t, b, blocksOf(test, blas32.General{}, nil), o, evaluate.Options{})
	sets, err := b.Calibration.TrueClasses.Sets(calibrate.SetOptions{Score: o.Sets, ByCluster: true, Seed: 1}, .2)
	if err != nil {
		t.Fatal(err)
	}
	if e.Classifier.SetScore != "aps" || e.Classifier.SetsBy != "cluster" {
		t.Errorf("sets are by %q, %q", e.Classifier.SetScore, e.Classifier.SetsBy)
	}
	covered, rows := map[int]int{}, map[int]int{}
	for i, p := range mustPredict(t, b, test, o) {
		part, _ := sets.Part(test.Labels[i])
		rows[part]++
		if slices.Contains(p.Set, test.Labels[i]) {
			covered[part]++
		}
	}
	found := 0
	for _, p := range e.Guarantees {
		if p.Kind != "set_coverage" {
			continue
		}
		for part, n := range rows {
			if n == p.Rows && covered[part] == p.Count {
				found++
			}
		}
		if len(rows) > 1 && (p.Part != "cluster" || p.Name == "") {
			t.Errorf("a guarantee is of %q %q", p.Part, p.Name)
		}
	}
	if found != len(rows) || found < 2 {
		t.Errorf("%d clusters, %v rows, and %d guarantees of them", len(rows), rows, found)
	}
}

// TestIntervalScore checks that the evaluation names the interval score. For the score rcp, it
// also checks that guarantees count only half of the calibration rows, because the other half
// fits the scores.
func TestIntervalScore(t *testing.T) {
	b := mustFit(t, regressor(1, 300, 1))
	test := regressor(2, 300, 1)
	for score, want := range map[string]string{"": "cqr", "cir": "cir", "rcp": "rcp"} {
		e := mustEvaluate(t, b, blocksOf(test.Batch, test.Targets, nil), attach.PredictOptions{IntervalScore: score, Level: .98}, evaluate.Options{})
		if e.IntervalScore != want {
			t.Errorf("%q is called %q", score, e.IntervalScore)
		}
		for _, p := range e.Guarantees {
			if few := strings.Contains(p.Message, "calibration rows are too few for this guarantee"); p.Kind == "interval_coverage" && few != (want == "rcp") {
				t.Errorf("by %s of 60 calibration rows: %s", want, p.Message)
			}
			// With 97 calibration rows, 49 calibrate intervals. With 48, all intervals at this
			// level would be unbounded.
			if p.Kind == "interval_coverage" && want == "rcp" && p.Advice != "calibrate with at least 97 rows, and with 1,900 to tell whether the guarantee is met (half of them fit the scores)" {
				t.Errorf("by rcp of 60 calibration rows: %s; %s", p.Message, p.Advice)
			}
		}
	}
}

// partNotes returns the notes about parts of the rows in which a guarantee fails although it
// holds on average.
func partNotes(e *evaluate.Evaluation) (list []evaluate.Note) {
	for _, n := range e.Notes {
		if n.Part != "" {
			list = append(list, n)
		}
	}
	return list
}

// TestAdvisesAnyIntervalScore checks that advice tries other interval scores than cqr-r and rcp. Noise of one
// size for all rows is added after the fit. Scores that add a constant suit it, and cqr-r only
// helps by intervals that are a third wider.
func TestAdvisesAnyIntervalScore(t *testing.T) {
	in, cal, test := regressor(1, 1000, 1), regressor(2, 2000, 1), regressor(3, 4000, 1)
	in.IntervalModel, in.IntervalParams = method("quantile-forest"), ood.Params{"n_estimators": 10, "min_samples_leaf": 10}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, noisy := range [][]float32{cal.Targets.Data, test.Targets.Data} {
		for i := range noisy {
			noisy[i] += float32(3 * rng.NormFloat64())
		}
	}
	in.Cal, in.CalTargets = cal.Batch, cal.Targets
	e := mustEvaluate(t, mustFit(t, in), blocksOf(test.Batch, test.Targets, nil), attach.PredictOptions{IntervalScore: "rcp"}, evaluate.Options{})
	notes := partNotes(e)
	if len(notes) != 1 || notes[0].Value != "cqr" && notes[0].Value != "cir" {
		t.Errorf("the notes are %+v", notes)
	}
}

// TestAdvisesRidge checks that advice tries the score ridge, which suits this bias of the model,
// only if there are few calibration rows. With many it would take minutes.
func TestAdvisesRidge(t *testing.T) {
	for n, want := range map[int]bool{1000: true, 1001: false} {
		in, cal, test := regressor(1, 1000, 1), regressor(2, n, 1), regressor(3, 2000, 1)
		in.IntervalModel, in.IntervalParams = method("quantile-forest"), ood.Params{"n_estimators": 10, "min_samples_leaf": 10}
		for _, d := range []attach.FitOptions{cal, test} {
			for i := range d.Targets.Data {
				d.Targets.Data[i] += 3 * max(0, d.Batch.Logits.Data[i])
			}
		}
		in.Cal, in.CalTargets = cal.Batch, cal.Targets
		notes := partNotes(mustEvaluate(t, mustFit(t, in), blocksOf(test.Batch, test.Targets, nil), attach.PredictOptions{}, evaluate.Options{}))
		if len(notes) == 0 || (notes[0].Value == "ridge") != want {
			t.Errorf("%d calibration rows: the notes are %+v", n, notes)
		}
	}
}

// TestNamesDeciles checks the note about deciles. The interval model ignores that the noise
// grows with the prediction. The note must name the decile with the lowest coverage, and the
// advised option must raise that coverage.
func TestNamesDeciles(t *testing.T) {
	in := regressor(1, 500, 1)
	cal, test := regressor(2, 1000, 1), regressor(3, 2000, 1)
	in.Cal, in.CalTargets = cal.Batch, cal.Targets
	b := mustFit(t, in)
	evaluateWith := func(score string) (*evaluate.Evaluation, evaluate.Rate) {
		e := mustEvaluate(t, b, blocksOf(test.Batch, test.Targets, nil), attach.PredictOptions{IntervalScore: score}, evaluate.Options{Levels: []float64{.5}})
		for _, c := range e.Targets[0].Coverage {
			if c.Nominal == e.Level {
				return e, slices.MinFunc(c.ByDecile, func(a, b evaluate.Rate) int { return cmp.Compare(a.Fraction, b.Fraction) })
			}
		}
		t.Fatal("there is no coverage")
		return nil, evaluate.Rate{}
	}
	e, worst := evaluateWith("")
	notes := partNotes(e)
	if len(notes) != 1 || notes[0].Part != "decile" || notes[0].Option != "interval_score" || *worst.AdjustedPValue > .05 ||
		!strings.Contains(notes[0].Message, "where the prediction is "+worst.Name+", "+display.Percent(worst.Fraction)+" of 200 targets are within their intervals (") {
		t.Fatalf("the worst decile is %+v, and the notes are %+v", worst, notes)
	}
	for _, p := range e.Guarantees {
		if p.Kind == "interval_coverage" && p.Verdict != "met" {
			t.Errorf("the guarantee of the average is %+v", p)
		}
	}
	after, _ := evaluateWith(notes[0].Value)
	mended := find(after.Targets[0].Coverage[1].ByDecile, worst.Name)
	// The advice is measured on about 100 rows of the decile.
	if said := percentAfter(t, notes[0].Advice, "it covers them "); len(partNotes(after)) > 0 || math.Abs(said-mended) > .1 || mended < worst.Fraction+.2 {
		t.Errorf("with %s the decile is covered %.3f, before %.3f, and the notes are %+v, and the advice is %q", notes[0].Value, mended, worst.Fraction, partNotes(after), notes[0].Advice)
	}
	// If a guarantee is violated, there must be no note about its deciles.
	for i := range test.Targets.Data {
		test.Targets.Data[i] += 4
	}
	if e, worst := evaluateWith(""); len(partNotes(e)) > 0 || worst.AdjustedPValue != nil {
		t.Errorf("a violated guarantee has notes %+v", partNotes(e))
	}
}

// find returns the fraction of the rate with the given name, or NaN.
func find(list []evaluate.Rate, name string) float64 {
	for _, r := range list {
		if r.Name == name {
			return r.Fraction
		}
	}
	return math.NaN()
}

// percentAfter returns the fraction that a text gives in per cent after the words before it.
func percentAfter(t *testing.T, text, before string) float64 {
	t.Helper()
	_, rest, _ := strings.Cut(text, before)
	number, _, _ := strings.Cut(rest, " ")
	percent, err := strconv.ParseFloat(number, 64)
	if err != nil {
		t.Fatalf("%q has no number after %q", text, before)
	}
	return percent / 100
}

// ambiguous returns rows of three classes. Some rows of the last class look like rows of the
// other classes.
func ambiguous(seed uint64, n int) ood.Batch {
	b := blob(seed, n, 8, 3, 0)
	for i, label := range b.Labels {
		if label < 2 && i%10 == 0 {
			b.Labels[i] = 2
		}
	}
	return b
}

// TestNamesClasses checks the note about classes. Many rows of the last class look like other
// classes, so their sets often miss it. The note must advise sets by class, and these must
// cover the class.
func TestNamesClasses(t *testing.T) {
	in := classifier(300)
	in.Batch, in.Cal = ambiguous(1, 300), ambiguous(2, 1500)
	b, test := mustFit(t, in), ambiguous(3, 2000)
	groups := make([]string, test.Len())
	for i, label := range test.Labels {
		groups[i] = []string{"north", "north", "south"}[label]
	}
	evaluateWith := func(o attach.PredictOptions) *evaluate.Evaluation {
		o.Sets, o.Level = "lac", .8
		return mustEvaluate(t, b, blocksOf(test, blas32.General{}, groups), o, evaluate.Options{})
	}
	notes := partNotes(evaluateWith(attach.PredictOptions{}))
	if len(notes) != 2 || notes[0].Part != "class" || notes[0].Option != "sets_by_class" || !strings.Contains(notes[0].Message, ": in class d, ") {
		t.Fatalf("notes are %+v", notes)
	}
	if notes[1].Part != "group" || notes[1].Option != "sets_by_class" || !strings.Contains(notes[1].Message, ": in group south, ") {
		t.Errorf("the note about groups is %+v", notes[1])
	}
	after := evaluateWith(attach.PredictOptions{SetsByClass: true})
	for _, n := range partNotes(after) {
		if n.Part == "class" || n.Part == "group" {
			t.Errorf("by class a note is %+v", n)
		}
	}
	// The advice is measured on about 360 rows of the class.
	if mended, said := find(after.Classifier.Sets[0].ByClass, "d"), percentAfter(t, notes[0].Advice, "it covers them "); math.Abs(said-mended) > .06 {
		t.Errorf("by class d is covered %.3f, and the advice is %q", mended, notes[0].Advice)
	}
}

// TestNamesFewRows checks that there is no advice to calibrate by class if a class has too few
// calibration rows. Every set would then contain that class.
func TestNamesFewRows(t *testing.T) {
	var picked []int
	in, cal, few := classifier(300), ambiguous(2, 1500), 0
	for i, label := range cal.Labels {
		if label == 1 {
			few++
		}
		if label != 1 || few <= 3 {
			picked = append(picked, i)
		}
	}
	in.Batch, in.Cal = ambiguous(1, 300), cal.Select(picked)
	e := mustEvaluate(t, mustFit(t, in), blocksOf(ambiguous(3, 2000), blas32.General{}, nil), attach.PredictOptions{Sets: "lac", Level: .8}, evaluate.Options{})
	notes := partNotes(e)
	if len(notes) == 0 || notes[0].Option != "" || !strings.Contains(notes[0].Advice, "at least 4 of each class") {
		t.Errorf("notes are %+v", notes)
	}
}

// TestNamesGroups checks that a note names the group with larger noise, unless intervals are
// calibrated by group.
func TestNamesGroups(t *testing.T) {
	in, cal, test := regressor(1, 500, 2), regressor(2, 1000, 2), regressor(3, 1500, 2)
	groupsOf := func(r attach.FitOptions) []string {
		groups := make([]string, r.Batch.Len())
		for i := range groups {
			groups[i] = "calm"
			if i%5 == 0 {
				groups[i] = "wild"
				r.Targets.Data[2*i+1] *= 4
			}
		}
		return groups
	}
	in.Cal, in.CalTargets = cal.Batch, cal.Targets
	grouped, groups := groupsOf(cal), groupsOf(test)
	b := mustFit(t, in)
	notes := partNotes(mustEvaluate(t, b, blocksOf(test.Batch, test.Targets, groups), attach.PredictOptions{}, evaluate.Options{}))
	named := slices.ContainsFunc(notes, func(n evaluate.Note) bool {
		return n.Part == "group" && n.Option == "groups" && strings.HasPrefix(n.Message, "target 1: ") && strings.Contains(n.Message, ": in group wild, ")
	})
	if !named {
		t.Errorf("notes are %+v", notes)
	}
	in.CalGroups = grouped
	b = mustFit(t, in)
	for _, n := range partNotes(mustEvaluate(t, b, blocksOf(test.Batch, test.Targets, groups), attach.PredictOptions{}, evaluate.Options{})) {
		if n.Part == "group" {
			t.Errorf("by group there is a note about groups: %+v", n)
		}
	}
}

// TestEqualScores checks that there is no advice if fewer rows than allowed are flagged
// because rows of binary features have few distinct scores.
func TestEqualScores(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 26))
	binary := func(n int) ood.Batch {
		b := ood.Batch{Features: matrix(n, 3)}
		for i := range b.Features.Data {
			b.Features.Data[i] = float32(rng.IntN(2))
		}
		return b
	}
	b := mustFit(t, attach.FitOptions{Base: attach.Base{Task: attach.Embedding, Standardised: true}, Detector: method("covariance"), Batch: binary(400), Cal: binary(400)})
	e := mustEvaluate(t, b, blocksOf(binary(1000), blas32.General{}, nil), attach.PredictOptions{}, evaluate.Options{})
	for _, p := range e.Guarantees {
		if p.Nominal >= 0.05 && (p.Verdict != "met" || p.Advice != "" || !strings.HasSuffix(p.Message, "; far fewer than allowed, because many calibration rows have equal scores")) {
			t.Errorf("%s %s; %s", p.Verdict, p.Message, p.Advice)
		}
	}
}

// TestNoScoreError checks that Rows returns an error for a predictor with NoScore, because
// there are no flags to evaluate.
func TestNoScoreError(t *testing.T) {
	p, err := mustFit(t, classifier(100)).Predictor(attach.PredictOptions{NoScore: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = evaluate.Rows(t.Context(), p, blocksOf(blob(3, 50, 8, 3, 0), blas32.General{}, nil), evaluate.Options{})
	if err == nil || !strings.Contains(err.Error(), "without NoScore") {
		t.Errorf("error %v", err)
	}
}

// TestSmoothedSetsHideNothing checks that rows with the most predicted misses are not found by
// the size of a smoothed set, which depends on the random number that decides whether the set
// contains the label. Labels have the probabilities that the model predicts, so APS sets cover
// every row equally often.
func TestSmoothedSetsHideNothing(t *testing.T) {
	in := classifier(1000)
	in.Cal = softmaxRows(2, 2000)
	e := mustEvaluate(t, mustFit(t, in), blocksOf(softmaxRows(9, 3000), blas32.General{}, nil), attach.PredictOptions{Sets: "aps", Smoothed: true}, evaluate.Options{})
	tested := false
	for _, c := range e.Conditional {
		if c.Part == "predicted_misses" {
			tested = true
			if c.Verdict == "failed" || c.ERT.Deviation > .02 {
				t.Errorf("%+v, with the ERT %+v", c, c.ERT)
			}
		}
	}
	if !tested {
		t.Errorf("predicted misses are not tested: %+v", e.Conditional)
	}
}
