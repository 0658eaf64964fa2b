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

// rectifier is how far the score "cqr" of a row is expected to reach, at most, with
// probability level: its conditional quantile, by a forest of the row's predicted
// quantiles. Without a forest it is 0.
type rectifier struct {
	forest *trees.Forest
	level  float64
}

// rectifyTrees and rectifyLeaf are the trees of the forest, and the rows that a leaf
// has at least.
const (
	rectifyTrees = 50
	rectifyLeaf  = 10
)

// rectifiers are those of the targets, with what is left to calibrate each: all of it
// but for the score "rcp", where half of the calibration rows, drawn by Seed and of all
// targets the same, learn the scores of the others, which are exchangeable given these.
func (o IntervalOptions) rectifiers(targets []QuantileCalibration, alpha float64) (left []QuantileCalibration, all []rectifier, err error) {
	all = make([]rectifier, len(targets))
	if o.Score != conformal.RCP {
		return targets, all, nil
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
		learn := n - hypothesis.Halved(n)
		left = append(left, q.rows(order[learn:]))
		if all[t], err = o.learn(q.rows(order[:learn]), alpha); err != nil {
			return nil, nil, err
		}
	}
	return left, all, nil
}

// learn fits the forest to the scores "cqr" of rows, of a joint box too not in shares of
// widths.
func (o IntervalOptions) learn(q QuantileCalibration, alpha float64) (rectifier, error) {
	o.Joint = false
	l, n := len(q.Levels), len(q.Y)
	if n == 0 {
		return rectifier{}, nil
	}
	scores := make([]float32, n)
	for i, y := range q.Y {
		s := o.core(q, q.row(i), alpha, rectifier{}).score(float64(y))
		if math.IsNaN(s) || math.Abs(s) > math.MaxFloat32 {
			return rectifier{}, fmt.Errorf("a calibration row scores %v, of which nothing can be learnt", s)
		}
		scores[i] = float32(s)
	}
	data, err := trees.NewData(blas32.General{Rows: n, Cols: l, Stride: l, Data: q.Grid}, trees.Automatic)
	if err != nil {
		return rectifier{}, err
	}
	// Nothing ends it early.
	forest, err := trees.GrowForest(context.Background(), data, scores, trees.ForestOptions{
		Options: trees.Options{MinLeaf: rectifyLeaf, MaxFeatures: 1. / 3}, Trees: rectifyTrees, Seed: o.Seed,
	})
	return rectifier{forest, 1 - alpha}, err
}

// of is the quantile of the score of a row of predicted quantiles.
func (r rectifier) of(row []float32) float64 {
	if r.forest == nil {
		return 0
	}
	var quantile [1]float32
	r.forest.Quantiles(quantile[:], blas32.General{Rows: 1, Cols: len(row), Stride: len(row), Data: row}, []float64{r.level})
	return float64(quantile[0])
}

// rows are some of the calibration rows.
func (q QuantileCalibration) rows(of []int) QuantileCalibration {
	some := QuantileCalibration{Levels: q.Levels}
	for _, i := range of {
		some.Grid, some.Y = append(some.Grid, q.row(i)...), append(some.Y, q.Y[i])
	}
	return some
}
