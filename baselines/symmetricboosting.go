package baselines

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var symmetricBoostingMethod = ood.Method{
	Name: "symmetric-boosting",
	Doc: "Gradient-boosted trees of the size of errors, for intervals that are symmetric about the prediction. Use it for trees and tables with few rows: `attach fit` compares it " +
		"with gradient boosting of each level. It learns quantiles of the distance of targets from their median, which is the same for all rows. The quantiles 0.05 " +
		"and 0.95 are this median minus and plus the quantile 0.9 of the distance. It therefore suits errors, and not targets themselves. Parameters are those of " +
		"gradient-boosting.",
	Ref:    "Friedman 2001; Papadopoulos, Gammerman & Vovk 2008, normalised scores; Plassier et al. 2025, quantiles of the score",
	Needs:  boostingMethod.Needs,
	Params: boostingMethod.Params,
	Fit:    fitSymmetricBoosting,
	New:    func() any { return &symmetricBoosting{} },
}

// symmetricBoosting predicts quantiles of the distance from the centre of each target.
type symmetricBoosting struct {
	boosting
	Centre []float64 `state:"centre[targets]"`
}

func fitSymmetricBoosting(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	levels := distanceLevels(t.Levels)
	if len(levels) == 0 {
		return nil, errors.New("all levels are 0.5, at which nothing is fitted; give a level above or below")
	}
	s, targets := &symmetricBoosting{}, t.Targets
	t.Levels, t.Targets = levels, blas32.General{Rows: targets.Rows, Cols: targets.Cols, Stride: targets.Cols, Data: make([]float32, targets.Rows*targets.Cols)}
	for j := range targets.Cols {
		values := make([]float64, targets.Rows)
		for i, y := range targetColumn(targets, j) {
			values[i] = float64(y)
		}
		centre := quantile.Percentile(values, 50)
		s.Centre = append(s.Centre, centre)
		for i := range values {
			t.Targets.Data[i*targets.Cols+j] = float32(math.Abs(float64(targets.Data[i*targets.Stride+j]) - centre))
		}
	}
	fitted, err := fitBoosting(ctx, t, p)
	if err != nil {
		return nil, err
	}
	s.boosting = *fitted.(*boosting)
	return s, nil
}

// distanceLevels returns the levels of distances that the quantiles at the given levels need.
func distanceLevels(levels []float64) (list []float64) {
	for _, tau := range levels {
		if l := distanceLevel(tau); l > 0 {
			list = append(list, l)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// distanceLevel returns the level of the distance at the quantile tau, which is below 1. It is the
// same for tau and 1 − tau, although these are rounded.
func distanceLevel(tau float64) float64 {
	return min(math.Round(math.Abs(2*tau-1)*1e12), 1e12-1) / 1e12
}

// signed returns the levels of the distances at the quantiles, and what these distances are
// multiplied with. Below the smallest fitted level, distances decrease to 0 at the median.
func (s *symmetricBoosting) signed(levels []float64) (distances, factors []float64) {
	for _, tau := range levels {
		l := distanceLevel(tau)
		distances, factors = append(distances, l), append(factors, math.Copysign(min(1, l/s.Levels[0]), tau-0.5))
	}
	return distances, factors
}

func (s *symmetricBoosting) Quantiles(x blas32.General, levels []float64) ood.Quantiles {
	distances, factors := s.signed(levels)
	q := s.boosting.Quantiles(x, distances)
	q.Levels = slices.Clone(levels)
	for i := range q.Rows {
		for t, centre := range s.Centre {
			row := q.Row(i, t)
			for l, d := range row {
				row[l] = float32(centre + factors[l]*float64(max(d, 0))) // sums of trees can be negative
			}
		}
	}
	return q
}

func (s *symmetricBoosting) QuantilesGraph(x graph.Tensor, levels []float64) (graph.Tensor, error) {
	distances, factors := s.signed(levels)
	q, err := s.boosting.QuantilesGraph(x, distances)
	if err != nil {
		return q, err
	}
	return q.Relu().Double().Mul(factors).Add(q.Constant(s.Centre, len(s.Centre), 1)).Single(), nil
}

func (s *symmetricBoosting) Restored() error {
	if len(s.Centre)*len(s.Levels) != len(s.Models) {
		return fmt.Errorf("%d models of %d targets and %d levels", len(s.Models), len(s.Centre), len(s.Levels))
	}
	return s.boosting.Restored()
}
