package attach_test

import (
	"context"
	"iter"
	"math"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/ood"
)

// blocksOf are the rows in blocks of a few.
func blocksOf(b ood.Batch, y blas32.General, groups []string) iter.Seq2[attach.Rows, error] {
	return func(yield func(attach.Rows, error) bool) {
		for lo := 0; lo < b.Len(); lo += 70 {
			hi := min(lo+70, b.Len())
			r := attach.Rows{Batch: b.Slice(lo, hi)}
			if y.Cols > 0 {
				r.Targets = blas32.General{Rows: hi - lo, Cols: y.Cols, Stride: y.Stride, Data: y.Data[lo*y.Stride : (hi-1)*y.Stride+y.Cols]}
			}
			if groups != nil {
				r.Groups = groups[lo:hi]
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

func mustEvaluate(t testing.TB, b *attach.Bundle, rows iter.Seq2[attach.Rows, error], p attach.PredictOptions, o attach.EvaluateOptions) *attach.Evaluation {
	t.Helper()
	predictor, err := b.Predictor(p)
	if err != nil {
		t.Fatal(err)
	}
	e, err := predictor.Evaluate(context.Background(), rows, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestEvaluateClassifier compares with what its predictions say.
func TestEvaluateClassifier(t *testing.T) {
	b := mustFit(t, classifier(2000))
	batch := blob(9, 1000, 8, 3, 0)
	e := mustEvaluate(t, b, blocksOf(batch, blas32.General{}, nil), attach.PredictOptions{}, attach.EvaluateOptions{Alphas: []float64{.2}})
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
	if len(e.Flags.At) != 2 || e.Flags.At[0].Count != flagged || e.Flags.At[0].Asked != .05 || e.Flags.At[0].Rows != 1000 {
		t.Errorf("flags %+v, want %d", e.Flags.At, flagged)
	}
	if e.Classes.Accuracy.Count != right || e.Classes.Flagged.Count != rightFlagged || e.Classes.Flagged.Rows != flagged || e.Classes.Unflagged.Rows != 1000-flagged {
		t.Errorf("accuracy %+v, of flagged %+v; want %d and %d", e.Classes.Accuracy, e.Classes.Flagged, right, rightFlagged)
	}
	if e.Classes.After == nil || *e.Classes.After.NLL >= *e.Classes.Before.NLL {
		t.Errorf("before %+v, after %+v", e.Classes.Before, e.Classes.After)
	}
}

// TestEvaluateRegressor compares with what its predictions say.
func TestEvaluateRegressor(t *testing.T) {
	b := mustFit(t, regressor(1, 2000, 2))
	test := regressor(2, 1000, 2)
	e := mustEvaluate(t, b, blocksOf(test.Batch, test.Targets, nil), attach.PredictOptions{}, attach.EvaluateOptions{Levels: []float64{.5}})
	for k, level := range []float64{.5, .9} {
		p := cells(mustPredict(t, b, test.Batch, attach.PredictOptions{Level: level}))
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
			if got.Asked != level || got.Count != covered || math.Abs(*got.Width-width) > 1e-9 || len(got.ByTenth) != 10 || got.Slab == nil {
				t.Errorf("target %d at level %v: %+v, want %d of width %v", target, level, got, covered, width)
			}
		}
	}
	if len(e.Targets[1].Points) != 1000 || e.Targets[0].PIT == nil || e.Targets[0].PITCalibrated.Probability == nil {
		t.Errorf("%+v", e.Targets[1])
	}
}
