package evaluate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/ood"
)

// calibratedClassifier returns a classifier with held-out calibration rows.
func calibratedClassifier(t *testing.T) *attach.Bundle {
	t.Helper()
	in := classifier(1000)
	in.DetectorParams = ood.Params{"unit_norm": false}
	in.Cal = blob(2, 1000, 8, 3, 0)
	return mustFit(t, in)
}

// TestNotesOnRows checks the notes about mistakes in rows and labels.
func TestNotesOnRows(t *testing.T) {
	b := calibratedClassifier(t)
	relabelled := func(change func(label, row int) int) ood.Batch {
		batch := blob(9, 600, 8, 3, 0)
		batch.Labels = slices.Clone(batch.Labels)
		for i, label := range batch.Labels {
			batch.Labels[i] = change(label, i)
		}
		return batch
	}
	rng := rand.New(rand.NewPCG(1, 1))
	unlabelled := blob(9, 600, 8, 3, 0)
	unlabelled.Labels = nil
	known, mixed := blob(2, 1000, 8, 3, 0), blob(9, 600, 8, 3, 0)
	copy(mixed.Features.Data[:300*8], known.Features.Data)
	copy(mixed.Logits.Data[:300*3], known.Logits.Data)
	copy(mixed.Labels[:300], known.Labels)
	for _, tt := range []struct {
		name, want string
		batch      ood.Batch
	}{
		{"good", "", blob(9, 600, 8, 3, 0)},
		{"permuted", "the labels look permuted: the model mostly predicts b & <c> for a, a for b & <c>; ", relabelled(func(label, _ int) int { return []int{1, 0, 2}[label] })},
		{"shuffled", " with the predictions for other rows", relabelled(func(int, int) int { return rng.IntN(3) })},
		{"shifted", "almost no row looks like the calibration rows", blob(9, 600, 8, 3, 20)},
		{"the calibration rows", "600 of 600 rows were calibrated on", blob(2, 1000, 8, 3, 0).Slice(0, 600)},
		{"half of them the calibration rows", "300 of 600 rows were calibrated on", mixed},
		{"unlabelled", "the rows have no labels", unlabelled},
		{"harder", "accuracy is lower than on the calibration rows (8", relabelled(func(label, row int) int {
			if row%5 == 0 {
				return (label + 1) % 3
			}
			return label
		})},
	} {
		e := mustEvaluate(t, b, blocksOf(tt.batch, blas32.General{}, nil), attach.PredictOptions{Sets: "lac"}, evaluate.Options{})
		notes := fmt.Sprint(e.Notes)
		checkCause(t, tt.name, e, map[string]string{
			"permuted": "set_coverage: first number the labels in the order", "shuffled": "set_coverage: first check that the labels belong to these rows",
			"shifted": "false_alarm_rate: first check that inputs are prepared",
		}[tt.name])
		if message := e.Guarantees[0].Message; tt.name == "shifted" && !strings.HasSuffix(message, "; 100 times as many false alarms as guaranteed") {
			t.Error(message)
		}
		if tt.want == "" && len(e.Notes) > len(partNotes(e)) || !strings.Contains(notes, tt.want) {
			t.Errorf("%s: %s", tt.name, notes)
		}
	}
}

// checkCause checks that a note names the cause of a violated guarantee. want is the kind
// of the guarantee, a colon and the beginning of its advice. If want is empty, no note may
// name a cause.
func checkCause(t *testing.T, name string, e *evaluate.Evaluation, want string) {
	t.Helper()
	var all []string
	for _, p := range e.Guarantees {
		if p.ExplainedByNote {
			all = append(all, p.Kind+": "+p.Advice)
		}
	}
	if notes := strings.Join(all, "\n"); (want == "") != (notes == "") || !strings.Contains(notes, want) {
		t.Errorf("%s: to do first is %q, want %q of %+v", name, notes, want, e.Guarantees)
	}
}

// TestSwapped checks that there is a note if OOD rows score significantly lower than
// in-distribution rows.
func TestSwapped(t *testing.T) {
	b := calibratedClassifier(t)
	for _, tt := range []struct {
		shift, others float64
		swapped       bool
	}{{0, 0, false}, {0, 20, false}, {20, 0, true}} {
		x, others := blocksOf(blob(9, 600, 8, 3, tt.shift), blas32.General{}, nil), blocksOf(blob(10, 300, 8, 3, tt.others), blas32.General{}, nil)
		e := mustEvaluate(t, b, x, attach.PredictOptions{}, evaluate.Options{OOD: others})
		if notes := fmt.Sprint(e.Notes); strings.Contains(notes, "below 0.5") != tt.swapped {
			t.Errorf("%v: AUROC is %v: %s", tt, e.OOD.AUROC, notes)
		}
	}
}

// TestNotesOnTargets checks the notes about mistakes in targets.
func TestNotesOnTargets(t *testing.T) {
	b := mustFit(t, regressor(1, 500, 1))
	for _, tt := range []struct {
		name, want string
		change     func(y float32, row int) float32
	}{
		{"good", "", func(y float32, _ int) float32 { return y }},
		{"units", "times its predictions plus 7", func(y float32, _ int) float32 { return 1000*y + 70000 }},
		{"other rows", "the model predicts worse than the mean of the targets would: R² is -", func(_ float32, row int) float32 { return float32(row*7919%600)/60 - 5 }},
	} {
		in := regressor(5, 600, 1)
		for i, y := range in.Targets.Data {
			in.Targets.Data[i] = tt.change(y, i)
		}
		e := mustEvaluate(t, b, blocksOf(in.Batch, in.Targets, nil), attach.PredictOptions{}, evaluate.Options{})
		notes := fmt.Sprint(e.Notes)
		checkCause(t, tt.name, e, map[string]string{"units": "interval_coverage: first give targets in the units", "other rows": "interval_coverage: first check that the targets belong"}[tt.name])
		if tt.want == "" && len(e.Notes) > len(partNotes(e)) || !strings.Contains(notes, tt.want) {
			t.Errorf("%s: %s", tt.name, notes)
		}
	}
}

// TestTemperature checks that there is a note if a temperature was fitted on training rows and
// makes confidence worse on held-out rows. There must be no note for a temperature that was
// fitted on held-out rows.
func TestTemperature(t *testing.T) {
	in := classifier(400)
	in.Cal = softmaxRows(2, 2000)
	given := mustFit(t, in)
	split := in
	split.Cal = ood.Batch{}
	split.Batch = softmaxRows(1, 400)
	for i := range split.Batch.Labels { // the model is then right for at least 80 % of these rows
		if z := split.Batch.Logits.Data[3*i : 3*i+3]; i%5 > 0 {
			split.Batch.Labels[i] = slices.Index(z, slices.Max(z))
		}
	}
	trainedOn := mustFit(t, split)
	overconfident := *given
	overconfident.Calibration.Temperature = .3
	shuffled := softmaxRows(3, 1500)
	slices.Reverse(shuffled.Labels)
	for _, tt := range []struct {
		name   string
		b      *attach.Bundle
		rows   ood.Batch
		advice string
	}{
		{"fresh", given, softmaxRows(3, 1500), ""},
		{"too few", &overconfident, softmaxRows(3, 15), ""},
		{"sharp", &overconfident, softmaxRows(3, 1500), "calibrate with rows from the same source as these"},
		{"split off", trainedOn, softmaxRows(3, 1500), "calibrate with rows that the model was not trained on"},
		{"other labels", &overconfident, shuffled, ""},
	} {
		e := mustEvaluate(t, tt.b, blocksOf(tt.rows, blas32.General{}, nil), attach.PredictOptions{}, evaluate.Options{})
		var advice string
		for _, n := range e.Notes {
			if strings.Contains(n.Message, "makes confidence worse") {
				advice = n.Advice
			}
		}
		if tt.b == trainedOn && !strings.Contains(fmt.Sprint(e.Notes), "trained on them, or these rows are harder or prepared differently check how inputs are prepared") {
			t.Error(e.Notes)
		}
		if advice != tt.advice {
			t.Errorf("%s: to do is %q, want %q of %+v at temperature %v", tt.name, advice, tt.advice, e.Notes, e.Classifier.Temperature)
		}
	}
}

// TestTiedRows checks that new rows are not reported as calibration rows if many different
// rows have equal scores.
func TestTiedRows(t *testing.T) {
	source := blob(3, 1, 8, 3, 0)
	alike := func(b ood.Batch, rows int) ood.Batch {
		for i := range rows {
			copy(b.Features.Data[i*b.Features.Stride:], source.Features.Data)
		}
		return b
	}
	in := classifier(1000)
	in.DetectorParams = ood.Params{"unit_norm": false}
	in.Cal = alike(blob(2, 1000, 8, 3, 0), 95)
	e := mustEvaluate(t, mustFit(t, in), blocksOf(alike(blob(9, 300, 8, 3, 0), 35), blas32.General{}, nil), attach.PredictOptions{}, evaluate.Options{})
	for _, n := range e.Notes {
		if strings.Contains(n.Message, "have the scores of calibration rows") {
			t.Error(n.Message)
		}
	}
}
