package evaluate_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/ood"
)

// withoutLabels returns the rows without their labels.
func withoutLabels(b ood.Batch) ood.Batch {
	b.Labels = nil
	return b
}

// errorsOf returns the number of rows that are not flagged, and of wrong predictions among
// them and among all rows.
func errorsOf(t *testing.T, b *attach.Bundle, batch ood.Batch) (unflagged, wrong, all int) {
	for i, p := range mustPredict(t, b, batch, attach.PredictOptions{}) {
		miss := 0
		if p.Class != batch.Labels[i] {
			miss = 1
		}
		all += miss
		if !p.Flag {
			unflagged++
			wrong += miss
		}
	}
	return unflagged, wrong, all
}

// TestErrorEstimate compares the estimated error rate with the true one.
func TestErrorEstimate(t *testing.T) {
	b := calibratedClassifier(t)
	batch := blob(9, 1500, 8, 3, 0)
	e := mustEvaluate(t, b, blocksOf(withoutLabels(batch), blas32.General{}, nil), attach.PredictOptions{}, evaluate.Options{})
	u := e.ErrorEstimate
	unflagged, wrong, _ := errorsOf(t, b, batch)
	if u == nil || u.Rows != unflagged || u.Flagged != 1500-unflagged {
		t.Fatalf("%+v, want %d rows that are not flagged", u, unflagged)
	}
	truth := float64(wrong) / float64(unflagged)
	if !(*u.Low <= truth && truth <= *u.High) || math.Abs(*u.Error-truth) > .03 || *u.High-*u.Low > .1 {
		t.Errorf("[%v, %v, %v], want %v", *u.Low, *u.Error, *u.High, truth)
	}
	if low, high := *u.Low*float64(unflagged)/1500, (*u.High*float64(unflagged)+float64(u.Flagged))/1500; math.Abs(*u.AllLow-low) > 1e-12 || math.Abs(*u.AllHigh-high) > 1e-12 {
		t.Errorf("of all rows, [%v, %v] are wrong, want [%v, %v]", *u.AllLow, *u.AllHigh, low, high)
	}
	// About 5 % of the calibration rows are flagged, too.
	if u.CalibrationRows < 940 || u.CalibrationRows > 960 || u.CalibrationErrors == 0 || u.Warning != "" || u.Reason != "" {
		t.Errorf("%+v", u)
	}
	if labelled := mustEvaluate(t, b, blocksOf(batch, blas32.General{}, nil), attach.PredictOptions{}, evaluate.Options{}); labelled.ErrorEstimate != nil {
		t.Error("errors are estimated although labels are known")
	}
}

// TestErrorEstimateWarns checks warnings, and reasons why there is no estimate.
func TestErrorEstimateWarns(t *testing.T) {
	b := calibratedClassifier(t)
	estimate := func(b *attach.Bundle, batch ood.Batch) *evaluate.ErrorEstimate {
		return mustEvaluate(t, b, blocksOf(withoutLabels(batch), blas32.General{}, nil), attach.PredictOptions{}, evaluate.Options{}).ErrorEstimate
	}
	mixed := blob(9, 600, 8, 3, 0)
	copy(mixed.Features.Data, blob(10, 150, 8, 3, 20).Features.Data)
	if u := estimate(b, mixed); u.Error == nil || u.Flagged < 150 || !strings.Contains(u.Warning, "more rows are flagged than expected") {
		t.Errorf("with unfamiliar rows: %+v", u)
	}
	if u := estimate(b, blob(9, 100, 8, 3, 20)); u.Error != nil || !strings.Contains(u.Reason, "all rows are flagged") {
		t.Errorf("with unfamiliar rows only: %+v", u)
	}
	if u := estimate(mustFit(t, classifier(1000)), blob(9, 600, 8, 3, 0)); u.Error == nil || !strings.Contains(u.Warning, "split off") {
		t.Errorf("with calibration rows that were split off: %+v", u)
	}
	in := classifier(1000)
	in.Cal, in.TargetRows = blob(2, 1000, 8, 3, 0), blob(5, 500, 8, 3, 0).Features
	for range 2 {
		if u := estimate(mustFit(t, in), blob(9, 600, 8, 3, 0)); u.Error == nil || *u.High < .13 || *u.Low > .14 || !strings.Contains(u.Warning, "weights") {
			t.Errorf("with weights: %+v", u)
		}
		in.TargetLogits = blob(5, 500, 8, 3, 0).Logits // weights by class
	}
	perfect := *b
	perfect.Calibration.TrueClasses.Ranks = make([]int, len(b.Calibration.TrueClasses.Ranks))
	if u := estimate(&perfect, blob(9, 600, 8, 3, 0)); u.Error != nil || !strings.Contains(u.Reason, calibrate.ErrFewErrors.Error()) || u.Advice == "" {
		t.Errorf("without errors: %+v", u)
	}
	unknown := *b
	unknown.Calibration.TrueClasses = calibrate.ClassCalibration{}
	if u := estimate(&unknown, blob(9, 600, 8, 3, 0)); u.Error != nil || !strings.Contains(u.Reason, "have no labels") {
		t.Errorf("without labels of the calibration rows: %+v", u)
	}
}

// TestFewLabels checks the estimates from a few labelled rows, and that they are more precise
// than those of the labelled rows alone.
func TestFewLabels(t *testing.T) {
	in := classifier(1000)
	in.Cal = softmaxRows(2, 1000)
	b := mustFit(t, in)
	batch, few := softmaxRows(9, 3000), softmaxRows(10, 150)
	o := evaluate.Options{Labelled: blocksOf(few, blas32.General{}, nil)}
	e := mustEvaluate(t, b, blocksOf(withoutLabels(batch), blas32.General{}, nil), attach.PredictOptions{}, o)
	_, _, wrong := errorsOf(t, b, batch)
	_, _, fewWrong := errorsOf(t, b, few)
	if e.FewLabels == nil || e.FewLabels.Rows != 150 || len(e.FewLabels.Figures) != 1 || e.ErrorEstimate == nil {
		t.Fatalf("%+v", e.FewLabels)
	}
	f, truth := e.FewLabels.Figures[0], float64(wrong)/3000
	low, high := hypothesis.Interval(fewWrong, 150, .95)
	if f.Name != "error_rate" || math.Abs(f.LabelledValue-float64(fewWrong)/150) > 1e-12 || math.Abs(f.LabelledLow-low) > 1e-9 || math.Abs(f.LabelledHigh-high) > 1e-9 {
		t.Errorf("%+v, want %d wrong rows", f, fewWrong)
	}
	if !(f.Low <= truth && truth <= f.High) || f.High-f.Low > .97*(high-low) || f.Lambda < .3 {
		t.Errorf("%+v, want %v", f, truth)
	}
	if len(e.Notes) != 1 || !strings.Contains(e.Notes[0].Message, "only estimated") {
		t.Errorf("%+v", e.Notes)
	}
	o.Labelled = blocksOf(blob(10, 150, 8, 3, 0), blas32.General{}, nil)
	e = mustEvaluate(t, b, blocksOf(withoutLabels(batch), blas32.General{}, nil), attach.PredictOptions{}, o)
	if last := e.Notes[len(e.Notes)-1]; !strings.Contains(last.Message, "the labelled rows differ from the other rows") {
		t.Errorf("for less confident labelled rows, the note is %+v", last)
	}
}

// TestFewTargets checks the estimated errors of a regressor with two targets.
func TestFewTargets(t *testing.T) {
	in := regressor(1, 1000, 2)
	b := mustFit(t, in)
	test, few := regressor(2, 2000, 2), regressor(4, 200, 2)
	o := evaluate.Options{Labelled: blocksOf(few.Batch, few.Targets, nil)}
	e := mustEvaluate(t, b, blocksOf(test.Batch, blas32.General{}, nil), attach.PredictOptions{}, o)
	want := mustEvaluate(t, b, blocksOf(test.Batch, test.Targets, nil), attach.PredictOptions{}, evaluate.Options{})
	alone := mustEvaluate(t, b, blocksOf(few.Batch, few.Targets, nil), attach.PredictOptions{}, evaluate.Options{})
	if len(e.FewLabels.Figures) != 4 {
		t.Fatalf("%+v", e.FewLabels)
	}
	for k, f := range e.FewLabels.Figures {
		truth, labelled := *want.Targets[k/2].MAE, *alone.Targets[k/2].MAE
		if k%2 == 1 {
			truth, labelled = *want.Targets[k/2].RMSE, *alone.Targets[k/2].RMSE
		}
		if f.Target != k/2 || f.Name != []string{"mae", "rmse"}[k%2] || math.Abs(f.LabelledValue-labelled) > 1e-6*labelled || !(f.Low <= truth && truth <= f.High) || f.High-f.Low > 1.05*(f.LabelledHigh-f.LabelledLow) {
			t.Errorf("%+v, want %v, and %v of the labelled rows", f, truth, labelled)
		}
	}
}

// TestFewLabelsRefuses checks errors for labelled rows that do not fit.
func TestFewLabelsRefuses(t *testing.T) {
	b := calibratedClassifier(t)
	p, err := b.Predictor(attach.PredictOptions{})
	if err != nil {
		t.Fatal(err)
	}
	outside := blob(10, 50, 8, 3, 0)
	outside.Labels[7] = 3
	few := blob(10, 50, 8, 3, 0)
	for want, labelled := range map[string]ood.Batch{
		"the labelled rows have no labels": withoutLabels(few), "an estimate needs 10 labelled rows or more, not 9": few.Slice(0, 9), "row 7: label 3 is out of range": outside,
	} {
		o := evaluate.Options{Labelled: blocksOf(labelled, blas32.General{}, nil)}
		if _, err := evaluate.Rows(context.Background(), p, blocksOf(withoutLabels(few), blas32.General{}, nil), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	broken := errors.New("broken")
	o := evaluate.Options{Labelled: func(yield func(attach.Rows, error) bool) { yield(attach.Rows{}, broken) }}
	if _, err := evaluate.Rows(context.Background(), p, blocksOf(withoutLabels(few), blas32.General{}, nil), o); !errors.Is(err, broken) {
		t.Error(err)
	}
}
