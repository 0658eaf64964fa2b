package calibrate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/internal/numeric/trees"
)

// rectifier estimates the conditional quantile at level of the score "cqr", from the row's
// predicted quantiles, with a forest. Without a forest it is 0.
type rectifier struct {
	forest *trees.Forest
	level  float64
}

// rectifyTrees is the number of trees of the forest, and rectifyLeaf the smallest number of
// rows in a leaf.
const (
	rectifierTrees   = 50
	rectifierMinLeaf = 10
)

// rectifiers returns the rectifier of each target and the calibration rows that are left to
// calibrate it. For the score "rcp", half of the calibration rows train the rectifier. Seed
// draws them, the same rows for all targets. The scores of the other half are exchangeable
// given these rows. For other scores, all rows are left and rectifiers are empty.
func (o IntervalOptions) fitRectifiers(targets []QuantileCalibration, alpha float64) (remaining []QuantileCalibration, rectifiers []rectifier, err error) {
	rectifiers = make([]rectifier, len(targets))
	if o.Score != conformal.RCP {
		return targets, rectifiers, nil
	}
	var order []int
	for t, q := range targets {
		if err := q.check(); err != nil {
			return nil, nil, err
		}
		n := len(q.Y)
		if len(order) != n {
			order = rand.New(rand.NewPCG(o.Seed, rectifyStream)).Perm(n)
		}
		half := n - hypothesis.Halved(n)
		remaining = append(remaining, q.rows(order[half:]))
		if rectifiers[t], err = o.fitRectifier(q.rows(order[:half]), alpha); err != nil {
			return nil, nil, err
		}
	}
	return remaining, rectifiers, nil
}

// fitRectifier fits the forest to the scores "cqr" of the rows. For a joint box too, these are
// not fractions of widths.
func (o IntervalOptions) fitRectifier(q QuantileCalibration, alpha float64) (rectifier, error) {
	o.Joint = false
	l, n := len(q.Levels), len(q.Y)
	if n == 0 {
		return rectifier{}, nil
	}
	scores := make([]float32, n)
	for i, y := range q.Y {
		s := o.baseInterval(q, q.row(i), alpha, rectifier{}).score(float64(y))
		if math.IsNaN(s) || math.Abs(s) > math.MaxFloat32 {
			return rectifier{}, fmt.Errorf("the score \"rcp\" cannot be trained on a calibration row with the score %v: remove the row or choose another score", s)
		}
		scores[i] = float32(s)
	}
	data, err := trees.NewData(blas32.General{Rows: n, Cols: l, Stride: l, Data: q.Grid}, trees.Automatic)
	if err != nil {
		return rectifier{}, err
	}
	// The error is that of a cancelled context, and this one is never cancelled.
	forest, err := trees.GrowForest(context.Background(), data, scores, trees.ForestOptions{
		Options: trees.Options{MinLeaf: rectifierMinLeaf, MaxFeatures: 1. / 3}, Trees: rectifierTrees, Seed: o.Seed,
	})
	return rectifier{forest, 1 - alpha}, err
}

// quantile returns the estimated quantile of the score of a row with these predicted
// quantiles.
func (r rectifier) estimate(row []float32) float64 {
	if r.forest == nil {
		return 0
	}
	var result [1]float32
	r.forest.Quantiles(result[:], blas32.General{Rows: 1, Cols: len(row), Stride: len(row), Data: row}, []float64{r.level})
	return float64(result[0])
}

// rows returns the calibration rows with these numbers.
func (q QuantileCalibration) rows(indices []int) QuantileCalibration {
	part := QuantileCalibration{Levels: q.Levels}
	for _, i := range indices {
		part.Grid, part.Y = append(part.Grid, q.row(i)...), append(part.Y, q.Y[i])
	}
	return part
}
