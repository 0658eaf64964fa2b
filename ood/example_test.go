package ood_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/ood"
)

// norms is the fitted state of a custom detector.
type norms struct {
	Mean  float64 `state:"mean"`
	Power float64 `state:"power,positive"`
}

func normOf(x blas32.General, i int) float64 {
	return float64(blas32.Nrm2(blas32.Vector{N: x.Cols, Inc: 1, Data: x.Data[i*x.Stride : i*x.Stride+x.Cols]}))
}

// Score implements ood.Detector.
func (s *norms) Score(_ context.Context, dst []float64, b ood.Batch) error {
	for i := range dst {
		dst[i] = math.Pow(math.Abs(normOf(b.Features, i)-s.Mean), s.Power)
	}
	return nil
}

// This example defines a custom detector. Its rows, parameters and states are checked like
// those of the methods of this module. A .attach file with the detector can be opened again if
// both Save and Open are passed the method.
func ExampleMethod() {
	m := ood.Method{
		Name: "norms", Doc: "How far the norm of the features is from its mean.", Needs: ood.Needs{Features: true},
		Params: []ood.Param{{Name: "power", Default: 1, Takes: "positive", Sweep: []any{1, 2}}},
		Fit: func(_ context.Context, t ood.Training, p ood.Params) (any, error) {
			s := &norms{Power: p.Float("power")}
			for i := range t.Len() {
				s.Mean += normOf(t.Features, i) / float64(t.Len())
			}
			return s, nil
		},
		New: func() any { return &norms{} },
	}
	ctx := context.Background()
	rows := func(x ...float32) ood.Batch {
		return ood.Batch{Features: blas32.General{Rows: len(x) / 2, Cols: 2, Stride: 2, Data: x}}
	}
	in := attach.FitOptions{
		Base:  attach.Base{Task: attach.Classification},
		Batch: rows(3, 4, 0, 7), Cal: rows(0, 5, 6, 0, 4, 4),
		Detector: m, DetectorParams: ood.Params{"power": 2},
	}
	fitted, err := attach.Fit(ctx, in)
	check(err)
	dir, err := os.MkdirTemp("", "")
	check(err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "norms.attach")
	check(fitted.Save(ctx, path, m))
	opened, err := attach.Open(path, m)
	check(err)
	predictor, err := opened.Predictor(attach.PredictOptions{})
	check(err)
	predictions, err := predictor.Predict(ctx, attach.Rows{Batch: rows(6, 8)})
	check(err)
	fmt.Println(predictions[0].Score, predictions[0].PValue)
	in.DetectorParams["power"] = 0
	_, err = attach.Fit(ctx, in)
	fmt.Println(err)
	// Output:
	// 16 0.25
	// method "norms": parameter "power" must be a finite number above 0, not 0
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
