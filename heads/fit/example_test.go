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

// Simultaneous quantile regression learns every quantile of y given x.
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
	s, err := ood.Fit(ctx, sqr, ood.Training{Batch: ood.Batch{Features: x}, Targets: y, Trainer: trainer, Seed: 1}, ood.Params{"weight_decay": 1e-2})
	if err != nil {
		log.Fatal(err)
	}
	q := s.Quantiles(x, []float64{0.05, 0.5, 0.95})
	fmt.Printf("between %.2f and %.2f with probability .9, where x is %.2f\n", q.At(0, 0, 0), q.At(0, 0, 2), x.Data[0])
}
