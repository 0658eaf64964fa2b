package baselines_test

import (
	"errors"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/classes"
	"github.com/attach-uncertainty/attach/ood"
)

// TestMahalanobisLayersErrors checks that rows with other layers or widths than in the fit
// are rejected. It also checks fits with a constant layer, with no classes, and with no
// rows.
func TestMahalanobisLayersErrors(t *testing.T) {
	data := newToy()
	training, b := data.training(40), data.in(5)
	s, err := fitting.Fit(background, method("mahalanobis-layers"), training, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, layers := range map[string][]blas32.General{
		"none": nil, "one": b.Layers[:1], "other widths": {b.Layers[1], b.Layers[0]},
		"other rows": {b.Layers[0], data.in(4).Layers[1]},
	} {
		if _, err := s.Score(background, nil, ood.Batch{Layers: layers}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	training.Layers = []blas32.General{training.Layers[0], zeros(40, 3)}
	if _, err := fitting.Fit(background, method("mahalanobis-layers"), training, nil); err == nil {
		t.Error("a layer that does not vary: no error")
	}
	training.Labels, training.Logits = nil, blas32.General{}
	training.Layers = training.Layers[:1]
	if _, err := fitting.Fit(background, method("mahalanobis-layers"), training, nil); err != nil {
		t.Errorf("rows without classes: %v", err)
	}
	training.Layers = []blas32.General{zeros(0, 3)}
	if _, err := fitting.Fit(background, method("mahalanobis-layers"), training, nil); err == nil || errors.Is(err, classes.ErrNoClasses) {
		t.Errorf("no rows: %v", err)
	}
}
