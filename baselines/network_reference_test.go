package baselines_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

type networkReference struct {
	Shape  []int
	X      []float32
	Scale  []float32
	Hidden [][]float64
	Shift  []float64
	Weight [][]float32
	Bias   []float32
	Passes []float32
	Scores []struct {
		Method string
		Params ood.Params
		Scores []float64
	}
}

func openNetworkReference(t *testing.T) networkReference {
	t.Helper()
	b, err := os.ReadFile("testdata/network.json")
	if err != nil {
		t.Fatal(err)
	}
	var ref networkReference
	if err := json.Unmarshal(b, &ref); err != nil {
		t.Fatal(err)
	}
	return ref
}

func (r networkReference) network() twoLayers {
	return twoLayers{
		hidden: r.Hidden, shift: r.Shift,
		act:   math.Tanh,
		slope: func(v float64) float64 { return 1 - math.Tanh(v)*math.Tanh(v) },
		last:  &ood.Linear{Weight: general(r.Weight), Bias: r.Bias},
	}
}

// training has the rows themselves to fit with: the methods learn nothing.
func (r networkReference) training(t *testing.T) ood.Training {
	n := r.network()
	b, err := n.Forward(background, ood.InputBlock{Shape: r.Shape, Data: r.X})
	if err != nil {
		t.Fatal(err)
	}
	b.Inputs = ood.InputsOf(r.Shape, r.X)
	return ood.Training{Batch: b, Network: n, Last: n.last, InputScale: ood.InputScale{Factor: r.Scale, Axis: 0}}
}

// recorded has passes with dropout that were drawn elsewhere.
type recorded struct {
	twoLayers
	z          []float32 // passes×n×c
	passes, in int
}

func (n recorded) Dropouts() int { return 1 }

func (n recorded) Dropout(_ context.Context, x ood.InputBlock, passes int, _ float64, _ uint64) ([]float32, error) {
	c := len(n.z) / n.passes / n.in
	var z []float32
	for s := range passes {
		z = append(z, n.z[(s*n.in+x.Start)*c:(s*n.in+x.Start+x.Rows())*c]...)
	}
	return z, nil
}

func TestScoresAgreeWithPyTorch(t *testing.T) {
	ref := openNetworkReference(t)
	covered := map[string]bool{}
	for _, c := range ref.Scores {
		m, ok := attach.MethodByName(c.Method)
		if !ok {
			t.Fatalf("there is no method %q", c.Method)
		}
		all, err := m.With(c.Params)
		if err != nil {
			t.Fatal(err)
		}
		covered[c.Method+" "+all.String()] = true
		t.Run(c.Method+" "+c.Params.String(), func(t *testing.T) {
			training := ref.training(t)
			// Features and logits are float32.
			tolerance := func(want float64) float64 { return 2e-6*math.Abs(want) + 2e-7 }
			switch c.Method {
			case "odin", "odin-features":
				// Softmax at these temperatures is nearly uniform: what tells
				// rows apart is of the order of 1/T.
				tolerance = func(float64) float64 { return 2e-6 / c.Params["temperature"].(float64) }
			case "bald":
				training.Network = recorded{ref.network(), ref.Passes, 5, ref.Shape[0]}
				c.Params["passes"] = 5.
				tolerance = func(want float64) float64 { return 1e-9*math.Abs(want) + 1e-15 }
			}
			s, err := ood.Fit(background, m, training, c.Params)
			if err != nil {
				t.Fatal(err)
			}
			for i, got := range score(t, s, training.Batch) {
				if want := c.Scores[i]; !(math.Abs(got-want) <= tolerance(want)) {
					t.Errorf("row %d: %v, want %v (off by %.1g)", i, got, want, math.Abs(got-want))
				}
			}
		})
	}
	classifier := openClassifierReference(t)
	for _, m := range detectors {
		if _, drawn := m.Default()["passes"]; drawn || m.Needs&(ood.NeedNetwork|ood.NeedWeights) == 0 || featureMethods[m.Name] || classifier.has(m.Name) || m.Name == heads.FusedPValues.Name || m.Name == heads.FusedLayers.Name {
			continue
		}
		for _, p := range append(m.Grid(), m.Default()) {
			all, err := m.With(p)
			if err != nil {
				t.Fatal(err)
			}
			if name := m.Name + " " + all.String(); !covered[name] {
				t.Errorf("no reference scores of %s", name)
			}
		}
	}
}

func TestLastLayerOfManyOutputs(t *testing.T) {
	// Too large for one product: the passes go in groups, the rows in blocks.
	h, c, n := 300, 200, 40
	last := &ood.Linear{Weight: zeros(c, h)}
	for i := range last.Weight.Data {
		last.Weight.Data[i] = float32(i%17) - 8
	}
	b := ood.Batch{Features: zeros(n, h), Logits: zeros(n, c)}
	for i := range b.Features.Data {
		b.Features.Data[i] = float32(i%13) / 100
	}
	training := ood.Training{Batch: b, Last: last}
	s, err := ood.Fit(background, baselines.BALDFeatures, training, ood.Params{"passes": 700.})
	if err != nil {
		t.Fatal(err)
	}
	all := score(t, s, b)
	for _, i := range []int{0, n - 1} {
		if got := score(t, s, b.Slice(i, i+1)); !near(got, all[i:i+1], 1e-5) {
			t.Errorf("row %d alone scores %v, with others %v", i, got[0], all[i])
		}
	}
}
