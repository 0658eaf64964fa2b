package ood_test

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/ood"
)

// norms is what a detector of a program's own keeps of its fit.
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

// A method of a program's own is a value, as those of this module are: rows,
// parameters and states are checked before it sees them.
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
	batch := ood.Batch{Features: blas32.General{Rows: 2, Cols: 2, Stride: 2, Data: []float32{3, 4, 0, 7}}}
	scorer, err := ood.Fit(ctx, m, ood.Training{Batch: batch}, ood.Params{"power": 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	scores, _ := scorer.Score(ctx, nil, batch)
	restored, err := ood.Restore(m, scorer.State())
	if err != nil {
		fmt.Println(err)
		return
	}
	again, _ := restored.Score(ctx, nil, batch)
	fmt.Println(scores, again)
	_, err = m.With(ood.Params{"power": 0})
	fmt.Println(err)
	// Output:
	// [1 1] [1 1]
	// method "norms": parameter "power" must be a finite number above 0, not 0
}
