package featurize_test

import (
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/ood"
)

// TestContradictoryOptions checks that invalid and contradictory options give errors.
func TestContradictoryOptions(t *testing.T) {
	const path = "../testmodels/digits_vgg.onnx"
	m, err := featurize.Open(t.Context(), path, featurize.Options{EarlierLayers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	feature, layer := m.Info().Feature.Tensor, m.Info().Layers[0].Tensor
	for want, o := range map[string]featurize.Options{
		"Batch is -1":                          {Batch: -1},
		"EarlierLayers -1":                     {EarlierLayers: -1},
		"EarlierLayers is 2, and Layers names": {EarlierLayers: 2, Layers: []string{layer}},
		`cannot be "` + feature:                {Layers: []string{layer, feature}},
		`"` + layer + `", which is read`:       {Layers: []string{layer, layer}},
	} {
		if m, err := featurize.Open(t.Context(), path, o); err == nil {
			m.Close()
			t.Errorf("%+v is taken", o)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	x := featurize.Single(ood.BlockOf([]int{1, 1, 24, 24}, make([]float32, 576)))
	for want, o := range map[string]featurize.GradientOptions{"Index is 3": {Of: ood.Scalar{Sum: true, Index: 3}}, "the batch size is -2": {Batch: -2}} {
		for _, err := range m.Gradients(t.Context(), x, o) {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		}
	}
}

// TestRowsThatPanic checks that nil means no rows, and that the caller can recover from a
// panic of its iterator.
func TestRowsThatPanic(t *testing.T) {
	m, err := featurize.Open(t.Context(), "../testmodels/digits_vgg.onnx", featurize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.All(t.Context(), nil, -1, nil); err == nil || err.Error() != "there are no rows" {
		t.Errorf("of nil rows the error is %v", err)
	}
	defer func() {
		if r, ok := recover().(string); !ok || !strings.HasPrefix(r, "no such file\n") || !strings.Contains(r, "TestRowsThatPanic") {
			t.Errorf("recovered %v", r)
		}
	}()
	_, err = m.All(t.Context(), func(func(ood.InputBlock, error) bool) { panic("no such file") }, -1, nil)
	t.Errorf("no panic, but %v", err)
}

// TestAgreementOfNothing checks that an Agreement of no rows counts as a disagreement.
func TestAgreementOfNothing(t *testing.T) {
	if message := (featurize.Agreement{}).Disagreement(); !strings.Contains(message, "there are no rows") {
		t.Errorf("it says %q", message)
	}
}
