package fit

import (
	"context"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
)

// TestStart checks that training continues from given layers. It trains a model, starts a
// second training from its weights with a tiny learning rate, and expects equal weights.
func TestStart(t *testing.T) {
	e := open(t)
	for _, noBias := range []bool{false, true} {
		for _, hidden := range [][]int{nil, {4}, {4, 3}} {
			p := train.Problem{
				X: normal(1, 12, 3), Y: normal(2, 12, 2), Hidden: hidden, Outputs: 2, NoBias: noBias,
				Loss: "mse", Epochs: 3, BatchSize: 12, Models: []train.ModelConfig{{Seed: 3, LearningRate: .01, Target: -1}},
			}
			first := trained(t, e, p)[0]
			p.Models = append(p.Models, p.Models[0])
			for i := range p.Models {
				p.Models[i].LearningRate = 1e-9
			}
			p.Models[1].Start = strided(first.Layers)
			second := trained(t, e, p)[1]
			for i, l := range first.Layers {
				compare(t, "weight", i, second.Layers[i].W.Data, l.W.Data, 1e-6)
				compare(t, "bias", i, second.Layers[i].B, l.B, 1e-6)
			}
		}
	}
}

// strided returns a copy of layers with gaps between the rows of their weights.
func strided(layers []train.Layer) []train.Layer {
	var out []train.Layer
	for _, l := range layers {
		w := blas32.General{Rows: l.W.Rows, Cols: l.W.Cols, Stride: l.W.Cols + 2, Data: make([]float32, l.W.Rows*(l.W.Cols+2))}
		for i := range w.Rows {
			copy(w.Data[i*w.Stride:], l.W.Data[i*l.W.Stride:i*l.W.Stride+l.W.Cols])
		}
		out = append(out, train.Layer{W: w, B: slices.Clone(l.B)})
	}
	return out
}

// TestSharedTargets checks that a single row of targets is used for every row of X.
func TestSharedTargets(t *testing.T) {
	e := open(t)
	shared := normal(2, 1, 2)
	p := train.Problem{
		X: normal(1, 25, 3), Y: shared, Hidden: []int{4}, Outputs: 2, Loss: "mse", Epochs: 2, BatchSize: 8,
		Models: []train.ModelConfig{{Seed: 1, LearningRate: .01, Target: -1}, {Seed: 2, LearningRate: .02, Target: -1}},
	}
	got := trained(t, e, p)
	p.Y = matrix(25, 2, func(_, j int) float64 { return float64(shared.Data[j]) })
	for m, want := range trained(t, e, p) {
		for i, l := range want.Layers {
			if !slices.Equal(got[m].Layers[i].W.Data, l.W.Data) || !slices.Equal(got[m].Layers[i].B, l.B) {
				t.Errorf("model %d, layer %d differs from that of the row repeated", m, i)
			}
		}
	}
}

func TestBadStart(t *testing.T) {
	e := open(t)
	good := func() []train.Layer {
		return []train.Layer{{W: normal(3, 3, 4), B: make([]float32, 4)}, {W: normal(4, 4, 2), B: make([]float32, 2)}}
	}
	for _, test := range []struct {
		want string
		edit func(l []train.Layer) []train.Layer
	}{
		{"has 1 layers from 3 values to 4, want 2 from 3 to 2", func(l []train.Layer) []train.Layer { return l[:1] }},
		{"has 5 units in hidden layer 0, want 4", func([]train.Layer) []train.Layer {
			return []train.Layer{{W: normal(3, 3, 5), B: make([]float32, 5)}, {W: normal(4, 5, 2), B: make([]float32, 2)}}
		}},
		{"a bias in layer 1: false, want true", func(l []train.Layer) []train.Layer { l[1].B = nil; return l }},
		{"layer 1 reads 4 values, layer 0 makes 3", func(l []train.Layer) []train.Layer {
			l[0] = train.Layer{W: normal(3, 3, 3), B: make([]float32, 3)}
			return l
		}},
		{"no layers", func([]train.Layer) []train.Layer { return []train.Layer{} }},
	} {
		p := train.Problem{
			X: normal(1, 10, 3), Y: normal(2, 10, 2), Hidden: []int{4}, Outputs: 2, Loss: "mse", Epochs: 1, BatchSize: 4,
			Models: []train.ModelConfig{{LearningRate: .01, Target: -1}, {LearningRate: .01, Target: -1, Start: test.edit(good())}},
		}
		if _, err := e.Train(context.Background(), p); err == nil || !strings.Contains(err.Error(), "model 1: the initial network") ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}
