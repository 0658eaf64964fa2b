package fit_test

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/fit"
	"github.com/attach-uncertainty/attach/heads/train"
)

// Three networks learn the median and the 90 % quantile of y given x; they
// differ in their seeds and learning rates, and are trained at once.
func Example() {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 0))
	x := blas32.General{Rows: 1000, Cols: 1, Stride: 1, Data: make([]float32, 1000)}
	y := blas32.General{Rows: 1000, Cols: 1, Stride: 1, Data: make([]float32, 1000)}
	for i := range x.Data {
		x.Data[i] = rng.Float32()
		y.Data[i] = x.Data[i] + 0.1*float32(rng.NormFloat64())
	}

	engine, err := fit.New(ctx, fit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	networks, err := engine.Train(ctx, train.Problem{
		X: x, Y: y,
		Hidden: []int{64}, Outputs: 2,
		Loss: "pinball", Levels: []float64{0.5, 0.9},
		Models: []train.ModelConfig{
			{Seed: 1, LearningRate: 1e-2},
			{Seed: 2, LearningRate: 1e-2},
			{Seed: 1, LearningRate: 1e-3, WeightDecay: 1e-2},
		},
		Epochs: 100, BatchSize: 64,
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range networks {
		fmt.Printf("%d layers, pinball loss %.4f\n", len(n.Layers), n.Loss)
	}
}
