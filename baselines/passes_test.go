package baselines_test

import (
	"testing"

	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

func TestLastLayerOfManyOutputs(t *testing.T) {
	// Both the weights and the outputs of all passes exceed maxPassOutputs, so passes are
	// grouped and rows are divided into blocks.
	h, c, n := 24, 200, 24
	last := &ood.Linear{Weight: zeros(c, h)}
	for i := range last.Weight.Data {
		last.Weight.Data[i] = float32(i%17) - 8
	}
	b := ood.Batch{Features: zeros(n, h), Logits: zeros(n, c)}
	for i := range b.Features.Data {
		b.Features.Data[i] = float32(i%13) / 100
	}
	training := ood.Training{Batch: b, Last: last}
	s, err := fitting.Fit(background, method("bald-features"), training, ood.Params{"passes": 1000.})
	if err != nil {
		t.Fatal(err)
	}
	all := score(t, s, b)
	for _, i := range []int{0, n - 1} {
		if got := score(t, s, b.Slice(i, i+1)); !nearlyEqual(got, all[i:i+1], 1e-5) {
			t.Errorf("row %d alone scores %v, with others %v", i, got[0], all[i])
		}
	}
}
