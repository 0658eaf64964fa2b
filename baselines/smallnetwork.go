package baselines

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/ood"
)

// smallHidden is the width of the hidden layer in the networks of distillation and SVDD.
const smallHidden = 64

// smallNetworkParams returns the parameters for the number of outputs, bounded by memory, and
// the number of epochs, with the paper's grid.
func smallNetworkParams() []ood.Param {
	return []ood.Param{{Name: "k", Default: 100, Takes: "count,most=65536", Sweep: []any{100, 1000}}, {Name: "epochs", Default: 10, Takes: "count", Sweep: []any{10, 100}}}
}

// Each purpose has its own stream, so that its random numbers are independent of other uses of
// the same seed.
const (
	streamTeacher = 0x7465616368 // weights of distillation's teacher
	streamSVDD    = 0x73766464   // initial weights of SVDD
)

// drawNetwork draws a network with the given layer widths, from input to output. Weights and
// biases of a layer with d inputs are uniform on ±1/√d.
func drawNetwork(seed, stream uint64, biased bool, widths ...int) train.Network {
	rng := rand.New(rand.NewPCG(seed, stream))
	var n train.Network
	for i, in := range widths[:len(widths)-1] {
		out := widths[i+1]
		draw := func(count int) []float32 {
			v := make([]float32, count)
			for j := range v {
				v[j] = float32((2*rng.Float64() - 1) / math.Sqrt(float64(in)))
			}
			return v
		}
		l := train.Layer{W: blas32.General{Rows: in, Cols: out, Stride: out, Data: draw(in * out)}}
		if biased {
			l.B = draw(out)
		}
		n.Layers = append(n.Layers, l)
	}
	return n
}

// trainOne trains the single model of p on the features of t, with the learning rate and batch
// size of the paper.
func trainOne(ctx context.Context, t ood.Training, p train.Problem, model train.ModelConfig) (train.Network, error) {
	p.X, p.BatchSize, p.Progress = t.Features, 64, t.Progress
	model.Seed, model.LearningRate, model.Target = t.Seed, 1e-3, -1
	p.Models = []train.ModelConfig{model}
	networks, err := t.Trainer.Train(ctx, p)
	if err != nil {
		return train.Network{}, err
	}
	return networks[0], nil
}
