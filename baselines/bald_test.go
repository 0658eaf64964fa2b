package baselines_test

import (
	"testing"

	"github.com/attach-uncertainty/attach/ood"
)

// Dropout that the network was not trained with is marked, be it put in by the
// network or before the last layer's weights, and after a scorer was stored.
func TestBALDInserted(t *testing.T) {
	last := &ood.Linear{Weight: zeros(3, 4), Bias: make([]float32, 3)}
	for _, k := range []struct {
		name   string
		method ood.Method
		own    float64
		last   *ood.Linear
		want   string
	}{
		{"own layers", method("bald"), .3, last, ""},
		{"last layer", method("bald"), 0, last, "inserted dropout"},
		{"in the network", method("bald"), 0, nil, "inserted dropout"},
		{"asked for", method("bald-features"), 0, last, ""},
	} {
		network := twoLayers{act: bend, slope: bendSlope, last: last, rate: k.own}
		b := ood.Batch{Features: zeros(2, 4), Logits: zeros(2, 3), Inputs: ood.InputsOf(ood.BlockOf([]int{2, 4}, make([]float32, 8))), Network: network}
		s, err := ood.Fit(background, k.method, ood.Training{Batch: b, Last: k.last}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Variant(nil); got != k.want {
			t.Errorf("%s: %q, want %q", k.name, got, k.want)
		}
		if s, err = ood.Restore(k.method, s.State()); err != nil {
			t.Fatal(err)
		}
		if got := s.Variant(network); got != k.want {
			t.Errorf("%s, restored: %q, want %q", k.name, got, k.want)
		}
	}
}
