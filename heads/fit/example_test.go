package fit_test

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/heads/fit"
	"github.com/attach-uncertainty/attach/ood"
)

// Example: simultaneous quantile regression learns every quantile of y given x.
func Example_sqr() {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 0))
	x := blas32.General{Rows: 1000, Cols: 1, Stride: 1, Data: make([]float32, 1000)}
	y := blas32.General{Rows: 1000, Cols: 1, Stride: 1, Data: make([]float32, 1000)}
	for i := range x.Data {
		x.Data[i] = rng.Float32()
		y.Data[i] = x.Data[i] + 0.1*float32(rng.NormFloat64())
	}

	trainer, err := fit.New(ctx, fit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer trainer.Close()
	sqr, _ := attach.MethodByName("sqr")
	b, err := attach.Fit(ctx, attach.FitOptions{
		Base:  attach.Base{Task: attach.Regression},
		Batch: ood.Batch{Features: x}, Targets: y, Trainer: trainer, Seed: 1,
		IntervalModel: sqr, IntervalParams: ood.Params{"weight_decay": 1e-2}, SkipDetector: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	predictor, err := b.Predictor(attach.PredictOptions{Level: .9})
	if err != nil {
		log.Fatal(err)
	}
	p, err := predictor.Predict(ctx, attach.Rows{Batch: ood.Batch{Features: x}})
	if err != nil {
		log.Fatal(err)
	}
	target := p[0].Targets[0]
	fmt.Printf("between %.2f and %.2f with probability .9, where x is %.2f\n", target.Lower, target.Upper, x.Data[0])
}
