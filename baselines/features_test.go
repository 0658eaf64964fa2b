package baselines_test

import (
	"errors"
	"math"
	"testing"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
)

// TestDegenerateFeatures fits where covariances have no inverse.
func TestDegenerateFeatures(t *testing.T) {
	data := newToy()
	in, out := data.in(50), data.out(50)
	for _, c := range []struct {
		name    string
		rows    int
		mustFit bool
		change  func(row []float32)
	}{
		{"a dead and a doubled feature", 60, true, func(row []float32) { row[3], row[5] = 0, row[4] }},
		{"a feature of another scale", 60, true, func(row []float32) { row[3] *= 1e6 }},
		{"fewer rows than features", 5, false, func([]float32) {}},
		{"one row", 1, false, func([]float32) {}},
		{"equal rows", 20, false, func(row []float32) { clear(row); row[1] = 1 }},
		{"zeros", 20, false, func(row []float32) { clear(row) }},
	} {
		training := data.training(c.rows)
		for i := range c.rows {
			c.change(training.Features.Data[i*toyWidth : (i+1)*toyWidth])
		}
		for _, m := range detectors {
			t.Run(c.name+"/"+m.Name, func(t *testing.T) {
				s, err := ood.Fit(background, m, training, m.Default())
				if err != nil {
					if c.mustFit || err.Error() == "" {
						t.Error(err)
					}
					t.Log(err)
					return
				}
				for _, b := range []ood.Batch{in, out, training.Batch} {
					for i, v := range score(t, s, b) {
						if math.IsNaN(v) || math.IsInf(v, 0) {
							t.Fatalf("row %d scores %v", i, v)
						}
					}
				}
			})
		}
	}
}

func TestClassesOfTrainingRows(t *testing.T) {
	data := newToy()
	training := data.training(60)
	for _, m := range []ood.Method{baselines.Mahalanobis, baselines.RelativeMahalanobis} {
		// A class of its own for one row, whatever its number.
		labelled := training
		labelled.Logits = zeros(0, 0)
		labelled.Labels = append([]int{1 << 40}, training.Labels[1:]...)
		s, err := ood.Fit(background, m, labelled, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := score(t, s, training.Batch)[0]; m.Name == "mahalanobis" && math.Abs(d) > 1e-9 {
			t.Errorf("%s: the mean of its class is at distance %v", m.Name, d)
		}
		bare := training
		bare.Logits, bare.Labels = zeros(0, 0), nil
		if _, err := ood.Fit(background, m, bare, nil); !errors.Is(err, ood.ErrNoClasses) {
			t.Errorf("%s with neither labels nor logits: %v", m.Name, err)
		}
		short := training
		short.Labels = training.Labels[:7]
		if _, err := ood.Fit(background, m, short, nil); err == nil {
			t.Errorf("%s fits with 7 labels for 60 rows", m.Name)
		}
	}
	r, err := compare.Run(background, compare.Options{
		Methods:  []ood.Method{baselines.Mahalanobis, baselines.Distance},
		Training: ood.Training{Batch: ood.Batch{Features: training.Features}},
		In:       data.in(30), Out: data.out(30),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Skipped) != 1 || r.Skipped[0].Name != "mahalanobis" || len(r.Methods) != 1 {
		t.Errorf("without classes, skipped %+v and compared %+v", r.Skipped, r.Methods)
	}
}
