package baselines_test

import (
	"math"
	"testing"

	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

// TestGeometricalDistance checks scores of a linear network. For such a network, the margin
// of the logits divided by the norm of its gradient is the exact distance to the decision
// boundary.
func TestGeometricalDistance(t *testing.T) {
	last := &ood.Linear{Weight: zeros(3, 2), Bias: []float32{.5, -1, 0}}
	copy(last.Weight.Data, []float32{3, 4, 0, -1, 1, 1})
	unitSlope := func(float64) float64 { return 1 }
	network := twoLayers{activation: func(v float64) float64 { return v }, slope: unitSlope, last: last}
	x := []float32{2, 1, -1, -3, 30, 40}
	b, err := network.Forward(background, ood.BlockOf([]int{3, 2}, x))
	if err != nil {
		t.Fatal(err)
	}
	b.Inputs, b.Network = ood.BlockOf([]int{3, 2}, x), network
	p, err := fitting.With(method("geometrical"), ood.Params{"logits": true, "gradient": "margin"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := fitting.Fit(background, method("geometrical"), ood.Training{Batch: b, Last: last}, p)
	if err != nil {
		t.Fatal(err)
	}
	want := []float64{
		// The boundary between classes 0 and 2 is 2x + 3y + ½ = 0.
		-7.5 / math.Sqrt(13),
		// The boundary between classes 1 and 2 is −x − 2y − 1 = 0.
		-6 / math.Sqrt(5),
		-180.5 / math.Sqrt(13),
	}
	if got := score(t, s, b); !nearlyEqual(got, want, 1e-6) {
		t.Errorf("distances %v, want %v", got, want)
	}
}
