package baselines_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

// TestBALDInserted checks that Variant reports inserted dropout, whether the network or the
// method inserts it. It also checks that the state of a classifier has no variances of
// outputs.
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
		network := twoLayers{activation: wave, slope: waveSlope, last: last, rate: k.own}
		b := ood.Batch{Features: zeros(2, 4), Logits: zeros(2, 3), Inputs: ood.BlockOf([]int{2, 4}, make([]float32, 8)), Network: network}
		s, err := fitting.Fit(background, k.method, ood.Training{Batch: b, Last: k.last}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := fitting.Variant(k.method, network); got != k.want {
			t.Errorf("%s: %q, want %q", k.name, got, k.want)
		}
		if regressed := s.State().Params["regressed"]; regressed != nil && regressed != 0. {
			t.Errorf("%s: the state of a classifier has variances of a regressor's outputs: %v", k.name, regressed)
		}
	}
}

// TestBALDRegressor checks the variance over passes against its closed form. If unit j
// before the last layer is dropped with rate p, the variance is Σⱼ w²ⱼ φ²ⱼ p/(1−p). This
// must hold for a dropout layer of the network and for an inserted layer.
func TestBALDRegressor(t *testing.T) {
	const n, h, outputs, rate = 6, 5, 2, .3
	rng := rand.New(rand.NewPCG(5, 1))
	last := &ood.Linear{Weight: zeros(outputs, h), Bias: make([]float32, outputs)}
	for i := range last.Weight.Data {
		last.Weight.Data[i] = float32(rng.NormFloat64() * float64(1+9*(i/h)))
	}
	b := ood.Batch{Features: zeros(n, h), Logits: zeros(n, outputs)}
	for i := range b.Features.Data {
		b.Features.Data[i] = float32(rng.NormFloat64())
	}
	b.Inputs = ood.BlockOf([]int{n, h}, b.Features.Data)
	want := make([]float64, n)
	for k := range outputs {
		column, variance := make([]float64, n), make([]float64, n)
		for i := range n {
			for j := range h {
				v := float64(last.Weight.Data[k*h+j]) * float64(b.Features.Data[i*h+j])
				column[i] += v
				variance[i] += v * v * rate / (1 - rate)
			}
			b.Logits.Data[i*outputs+k] = float32(column[i])
		}
		for i, v := range variance {
			want[i] += v / stat.PopVariance(column, nil) / outputs
		}
	}
	same := func(v float64) float64 { return v }
	for name, own := range map[string]float64{"own": rate, "inserted": 0} {
		b.Network = twoLayers{activation: same, slope: func(float64) float64 { return 1 }, last: last, rate: own}
		s, err := fitting.Fit(background, method("bald"), ood.Training{Batch: b, Last: last, Regression: true}, ood.Params{"passes": 20000, "dropout": rate})
		if err != nil {
			t.Fatal(err)
		}
		if s, err = fitting.Restore(method("bald"), s.State()); err != nil {
			t.Fatal(err)
		}
		got, err := s.Score(background, nil, b)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if math.Abs(got[i]/want[i]-1) > .06 {
				t.Errorf("%s, row %d: %v, want %v", name, i, got[i], want[i])
			}
		}
	}
	single := ood.Batch{Features: b.Features, Inputs: b.Inputs, Network: twoLayers{activation: same, last: last}, Logits: zeros(n, 1)}
	if _, err := fitting.Fit(background, method("bald"), ood.Training{Batch: single, Regression: true}, ood.Params{"dropout": 0.}); err == nil {
		t.Error("a network without dropout was accepted at a rate of 0")
	}
}
