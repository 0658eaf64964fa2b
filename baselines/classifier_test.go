package baselines_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/classes"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
)

// TestMismatchedLabels checks that labels which match no prediction are an error, because
// they are probably numbered differently. It also checks negative labels and too few
// labels.
func TestMismatchedLabels(t *testing.T) {
	training := newToy().training(60)
	for _, m := range []ood.Method{method("she"), method("openmax")} {
		for _, labels := range [][]int{slices.Repeat([]int{7}, 60), {0, 1}, slices.Repeat([]int{-1}, 60)} {
			training.Labels = labels
			if _, err := fitting.Fit(background, m, training, nil); err == nil || !strings.Contains(err.Error(), "label") {
				t.Errorf("%s with labels such as %v: %v", m.Name, labels[:2], err)
			}
		}
		training.Labels = make([]int, 60)
		for i := range training.Labels {
			training.Labels[i] = (1 + slices.Index(isLargest(training.Logits, i), true)) % toyClasses
		}
		if _, err := fitting.Fit(background, m, training, nil); err == nil || !strings.Contains(err.Error(), "numbered") {
			t.Errorf("%s if no label is predicted: %v", m.Name, err)
		}
	}
}

// isLargest reports, for each logit of row i, whether it is the largest of the row.
func isLargest(z blas32.General, i int) []bool {
	r := z.Data[i*z.Stride : i*z.Stride+z.Cols]
	largest := make([]bool, len(r))
	for k, v := range r {
		largest[k] = v == slices.Max(r)
	}
	return largest
}

func TestRestoreRejectsInvalidStates(t *testing.T) {
	training := newToy().training(60)
	for _, c := range []struct {
		method ood.Method
		damage func(rows.State)
	}{
		{method("gen"), func(s rows.State) { s.Params["top"] = 0. }},
		{method("gen"), func(s rows.State) { s.Params["gamma"] = -1. }},
		{method("ash-b"), func(s rows.State) { s.Params["percentile"] = 100. }},
		{method("bald-features"), func(s rows.State) { s.Params["passes"] = 1e9 }},
		{method("nci"), func(s rows.State) { s.Params["alpha"] = -1. }},
		{method("nci"), func(s rows.State) { s.Params["width of features"] = toyWidth - 1. }},
		{method("openmax"), func(s rows.State) { s.Arrays["tail_shape"].Data.([]float64)[0] = -1 }},
		{method("openmax"), func(s rows.State) { s.Arrays["tail_at"].Data.([]float64)[0] = 0 }},
		{method("kl-matching"), func(s rows.State) { s.Params["width of logits"] = 2. }},
		{method("nnguide"), func(s rows.State) { s.Arrays["bank"].Data.([]float32)[0] = float32(math.NaN()) }},
	} {
		s, err := fitting.Fit(background, c.method, training, nil)
		if err != nil {
			t.Fatal(err)
		}
		st := throughJSON(t, s.State())
		if _, err := fitting.Restore(c.method, st); err != nil {
			t.Fatalf("%s: %v", c.method.Name, err)
		}
		c.damage(st)
		if _, err := fitting.Restore(c.method, st); err == nil {
			t.Errorf("%s restores from %v", c.method.Name, st.Params)
		}
	}
}

func TestClassesOfTrainingRows(t *testing.T) {
	data := newToy()
	training := data.training(60)
	for _, m := range []ood.Method{method("mahalanobis"), method("relative-mahalanobis")} {
		// Only the first row has this label, so it is the mean of its class. Class numbers
		// may be large.
		labelled := training
		labelled.Logits = zeros(0, 0)
		labelled.Labels = append([]int{1 << 40}, training.Labels[1:]...)
		s, err := fitting.Fit(background, m, labelled, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := score(t, s, training.Batch)[0]; m.Name == "mahalanobis" && math.Abs(d) > 1e-9 {
			t.Errorf("%s: the mean of its class is at distance %v", m.Name, d)
		}
		bare := training
		bare.Logits, bare.Labels = zeros(0, 0), nil
		if _, err := fitting.Fit(background, m, bare, nil); !errors.Is(err, classes.ErrNoClasses) {
			t.Errorf("%s with neither labels nor logits: %v", m.Name, err)
		}
		short := training
		short.Labels = training.Labels[:7]
		if _, err := fitting.Fit(background, m, short, nil); err == nil {
			t.Errorf("%s fits with 7 labels for 60 rows", m.Name)
		}
	}
	r, err := compare.Run(background, compare.Options{
		Methods:  []ood.Method{method("mahalanobis"), method("distance")},
		Training: ood.Training{Batch: ood.Batch{Features: training.Features}},
		Test:     data.in(30), OOD: data.out(30),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Skipped) != 1 || r.Skipped[0].Name != "mahalanobis" || len(r.Methods) != 1 {
		t.Errorf("without classes, skipped %+v and compared %+v", r.Skipped, r.Methods)
	}
}
