package calibrate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/internal/numeric/trees"
)

// rectifier estimates a quantile of the score "cqr" for each row. A forest predicts this
// quantile, at the field level, from the predicted quantiles of the row. Without a forest,
// the estimate is 0.
type rectifier struct {
	forest *trees.Forest
	level  float64
}

// Options of the forest of a rectifier: its number of trees, and the smallest number of rows
// in a leaf.
const (
	rectifierTrees   = 50
	rectifierMinLeaf = 10
)

// fitRectifiers fits the rectifier of each target, and returns the remaining calibration rows.
// With the score "rcp", half of the calibration rows train the rectifiers. Seed draws this
// half, which is the same for all targets. Given the rectifiers, the scores of the remaining
// rows are exchangeable. With other scores, all rows remain and the rectifiers are empty.
func (o IntervalOptions) fitRectifiers(targets []QuantileCalibration, alpha float64) ([]QuantileCalibration, []rectifier, error) {
	rectifiers := make([]rectifier, len(targets))
	if o.Score != conformal.RCP {
		return targets, rectifiers, nil
	}
	taught, remaining, err := halve(targets, o.Seed, rectifierStream)
	if err != nil {
		return nil, nil, err
	}
	for t, q := range taught {
		if rectifiers[t], err = o.fitRectifier(q, alpha); err != nil {
			return nil, nil, err
		}
	}
	return remaining, rectifiers, nil
}

// halve divides the calibration rows into two halves. The first one is for a fit, and the
// second one, which has one row more if their number is odd, for calibration. Seed and stream
// draw the halves, which are the same for all targets.
func halve(targets []QuantileCalibration, seed, stream uint64) (first, second []QuantileCalibration, err error) {
	var order []int
	for _, q := range targets {
		if err := q.check(); err != nil {
			return nil, nil, err
		}
		n := len(q.Y)
		half := n - hypothesis.Halved(n)
		if len(order) != n {
			order = rand.New(rand.NewPCG(seed, stream)).Perm(n)
			slices.Sort(order[half:]) // CalibrationScores keeps the order of rows
		}
		first, second = append(first, q.rows(order[:half])), append(second, q.rows(order[half:]))
	}
	return first, second, nil
}

// fitRectifier fits a forest to the "cqr" scores of the rows. It ignores Joint, because the
// forest estimates these scores and not fractions of widths.
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
	// GrowForest fails if the context is cancelled, which cannot happen here.
	forest, err := trees.GrowForest(context.Background(), data, scores, trees.ForestOptions{
		Options: trees.Options{MinLeaf: rectifierMinLeaf, MaxFeatures: 1. / 3}, Trees: rectifierTrees, Seed: o.Seed,
	})
	return rectifier{forest, 1 - alpha}, err
}

// estimate returns the estimated quantile of the score for a row with these predicted
// quantiles.
func (r rectifier) estimate(row []float32) float64 {
	if r.forest == nil {
		return 0
	}
	var result [1]float32
	r.forest.Quantiles(result[:], blas32.General{Rows: 1, Cols: len(row), Stride: len(row), Data: row}, []float64{r.level})
	return float64(result[0])
}

// rows returns a copy of the calibration rows with these indices.
func (q QuantileCalibration) rows(indices []int) QuantileCalibration {
	part := QuantileCalibration{Levels: q.Levels}
	for _, i := range indices {
		part.add(q, i)
	}
	return part
}
