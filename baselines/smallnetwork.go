package baselines

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/ood"
)

// smallHidden is the number of hidden units in the networks of distillation and svdd.
const smallHidden = 64

// smallNetworkParams returns the parameters for the number of outputs and the number of
// epochs. The sweep is the grid of Tagasovska & Lopez-Paz (2019). The number of outputs is
// limited because of memory.
func smallNetworkParams() []ood.Param {
	return []ood.Param{{Name: "k", Default: 100, Takes: "count,most=65536", Sweep: []any{100, 1000}}, {Name: "epochs", Default: 10, Takes: "count", Sweep: []any{10, 100}}}
}

// Each use of random numbers has its own stream, so that different uses of a seed are
// independent.
const (
	streamTeacher = 0x7465616368 // weights of the teacher of distillation
	streamSVDD    = 0x73766464   // initial weights of svdd
)

// drawNetwork returns a random network with the given layer widths, from input to output.
// Weights and biases of a layer with d inputs are uniform on ±1/√d.
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

// trainOne trains one model on the features of t for problem p. It sets the learning rate
// and the batch size of Tagasovska & Lopez-Paz (2019).
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
