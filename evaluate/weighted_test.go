package evaluate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// tilted keeps rows of a regressor with probabilities that grow with the first feature x like
// exp(0.8x).
func tilted(seed uint64, n int) (ood.Batch, blas32.General) {
	in, rng := regressor(seed, n, 1), rand.New(rand.NewPCG(seed, 23))
	var kept []int
	for i := range n {
		if x := float64(rows.Row(in.Batch.Features, i)[0]); rng.Float64() < math.Exp(.8*x-1.6) {
			kept = append(kept, i)
		}
	}
	return in.Batch.Select(kept), rows.Select(in.Targets, kept)
}

// TestWeightedEvaluation checks that guarantees are tested with the effective sample size, and
// that comparisons with calibration rows of equal weights are left out.
func TestWeightedEvaluation(t *testing.T) {
	in, cal := regressor(1, 300, 1), regressor(2, 1500, 1)
	in.Cal, in.CalTargets = cal.Batch, cal.Targets
	test, y := tilted(4, 5000)
	plain := mustEvaluate(t, mustFit(t, in), blocksOf(test, y, nil), attach.PredictOptions{}, evaluate.Options{})
	target, _ := tilted(3, 5000)
	in.TargetRows = target.Features
	b := mustFit(t, in)
	e := mustEvaluate(t, b, blocksOf(test, y, nil), attach.PredictOptions{}, evaluate.Options{})
	if want := calibrate.EffectiveSampleSize(b.Calibration.Weights); e.EffectiveSampleSize != want || want > 1200 || plain.EffectiveSampleSize != 0 {
		t.Errorf("the effective sample size is %v with weights and %v without, not %v and 0", e.EffectiveSampleSize, plain.EffectiveSampleSize, want)
	}
	verdict := func(e *evaluate.Evaluation) string {
		for _, g := range e.Guarantees {
			if g.Kind == "interval_coverage" {
				return g.Verdict
			}
		}
		return ""
	}
	if verdict(plain) != "violated" || verdict(e) != "met" {
		t.Errorf("the coverage is %s without weights and %s with them", verdict(plain), verdict(e))
	}
	if e.Flags.PValues.KSPValue != nil || e.Targets[0].PITCalibrated != nil {
		t.Error("scores or levels are compared with those of calibration rows without weights")
	}
	if len(e.Notes) == 0 || !strings.Contains(e.Notes[0].Message, "verdicts are approximate") {
		t.Errorf("notes are %+v", e.Notes)
	}
	total := 0.
	for _, v := range e.Flags.PValues.Expected {
		total += v
	}
	if math.Abs(total-float64(e.Rows)) > 1e-6*total {
		t.Errorf("the expected counts of %d rows add up to %v", e.Rows, total)
	}
	few := in
	few.Cal, few.CalTargets = in.Cal.Slice(0, 100), rows.Slice(in.CalTargets, 0, 100)
	e = mustEvaluate(t, mustFit(t, few), blocksOf(test, y, nil), attach.PredictOptions{Level: .98}, evaluate.Options{})
	message := e.Guarantees[len(e.Guarantees)-1].Message
	if want := fmt.Sprintf("; too few calibration rows to tell: with %d, ", int(e.EffectiveSampleSize)); !strings.Contains(message, want) {
		t.Errorf("100 rows give the message %q, without %q", message, want)
	}
}
