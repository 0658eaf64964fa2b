package calibrate

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/numeric/logistic"
	"github.com/attach-uncertainty/attach/internal/numeric/moments"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
)

const (
	// minRatioRows is the smallest number of rows of each kind. The principal components of fewer
	// rows are too few to show most shifts.
	minRatioRows = 100
	// ratioRows is the smallest number of rows of each kind for each principal component, and
	// ratioComponents the largest number of components.
	ratioRows       = 20
	ratioComponents = 20
	// ratioPenalty is the penalty of the logistic regression.
	ratioPenalty = 1
	// ratioLimit bounds ratios to 1/ratioLimit … ratioLimit. Larger ratios would give a few
	// rows all the weight.
	ratioLimit = 50
	// outlierLimit bounds the values that ratios are estimated from: see limitOutliers.
	outlierLimit = 10
	// minEffectiveSampleSize is the smallest number of rows that weighted rows may be worth.
	// With fewer rows, many intervals are infinite, and coverage is left to chance.
	minEffectiveSampleSize = 30
)

// DensityRatio estimates the weights of rows for WeightedConformal. The logarithm of the ratio
// is linear in the features of a row: Coefficients·x + Intercept. Ratios are bounded to 1/50 …
// 50. Such a function describes a shift of the means of features, but not of their variances.
type DensityRatio struct {
	Coefficients []float64 // one for each feature
	Intercept    float64
}

// NewDensityRatio estimates the ratio of two densities from calibration rows and from rows
// like those to predict. Both have the same features, and neither has labels or targets. It
// also returns the weights of the calibration rows. It needs 100 rows of each kind, and returns
// an error if the EffectiveSampleSize of the weights is below 30, or their sum below 30 times the
// mean weight of the target rows.
//
// A penalised logistic regression tells the two kinds of rows apart by the first principal
// components of standardised features, without the size of extreme values. Its odds, divided by the ratio of the numbers of rows,
// estimate the ratio of densities. They are not calibrated on held-out rows: this would shrink
// them, and coverage would be too low. Without a shift, the odds of few rows differ from 1 by
// chance, which does not lower coverage.
//
// Reference: Bickel, Brückner & Scheffer (2009), Discriminative Learning Under Covariate Shift.
func NewDensityRatio(ctx context.Context, calibration, target blas32.General) (DensityRatio, []float64, error) {
	n, m := calibration.Rows, target.Rows
	switch {
	case calibration.Cols != target.Cols:
		return DensityRatio{}, nil, fmt.Errorf("calibration rows have %d features and target rows have %d: they must be equal", calibration.Cols, target.Cols)
	case min(n, m) < minRatioRows:
		return DensityRatio{}, nil, fmt.Errorf("there are %s and %s: a density ratio needs at least %d of each, because fewer rows hardly show how the two kinds differ",
			rows.Count(n, "calibration row"), rows.Count(m, "target row"), minRatioRows)
	}
	all := stack(calibration, target)
	if err := rows.CheckFinite("features", all); err != nil {
		return DensityRatio{}, nil, err
	}
	limitOutliers(all)
	scaling := rows.NewScaling(all)
	x, components, err := project(ctx, scaling.Apply(all), min(max(min(n, m)/ratioRows, 1), ratioComponents, all.Cols))
	if err != nil {
		return DensityRatio{}, nil, err
	}
	w, b, err := logistic.Problem{X: x, Negatives: n, Lambda: ratioPenalty}.Solve(ctx)
	if err != nil {
		return DensityRatio{}, nil, fmt.Errorf("logistic regression: %w", err)
	}
	r := DensityRatio{make([]float64, all.Cols), b - math.Log(float64(m)/float64(n))}
	for j := range r.Coefficients {
		if scaling.Deviation[j] > 0 {
			r.Coefficients[j] = blas64.Dot(dense.Vector(dense.Row(components, j)), dense.Vector(w)) / scaling.Deviation[j]
			r.Intercept -= r.Coefficients[j] * scaling.Mean[j]
		}
	}
	weights := make([]float64, n)
	for i := range weights {
		weights[i] = r.Weight(rows.Row(calibration, i))
	}
	ofTarget := 0. // mean weight of target rows
	for i := range m {
		ofTarget += r.Weight(rows.Row(target, i)) / float64(m)
	}
	// The weight of a new row counts as well. If no calibration row is like the target rows, all
	// weights are at the lower bound, and only their sum is too small.
	if size := min(EffectiveSampleSize(weights), floats.Sum(weights)/ofTarget); size < minEffectiveSampleSize {
		return DensityRatio{}, nil, fmt.Errorf("the weighted calibration rows are worth only %.1f rows, and at least %d are needed: few of them are like the target rows, so calibrate with more rows like the target rows",
			size, minEffectiveSampleSize)
	}
	return r, weights, nil
}

// Weight returns the estimated ratio for the features of a row. It panics unless there is one feature
// for each coefficient. If a feature is not finite, the ratio is +Inf.
func (r DensityRatio) Weight(row []float32) float64 {
	if len(row) != len(r.Coefficients) {
		panic(fmt.Sprintf("calibrate: a row has %d features and the density ratio needs %d", len(row), len(r.Coefficients)))
	}
	log := logistic.LogOdds(row, r.Coefficients, r.Intercept)
	if !rows.Finite(log) {
		return math.Inf(1)
	}
	return boundedRatio(log)
}

// boundedRatio returns exp(log), bounded to 1/ratioLimit … ratioLimit.
func boundedRatio(log float64) float64 {
	limit := math.Log(ratioLimit)
	return math.Exp(min(max(log, -limit), limit))
}

// stack returns the rows of a and then the rows of b.
func stack(a, b blas32.General) blas32.General {
	all := rows.New(a.Rows+b.Rows, a.Cols)
	for i := range all.Rows {
		if i < a.Rows {
			copy(rows.Row(all, i), rows.Row(a, i))
		} else {
			copy(rows.Row(all, i), rows.Row(b, i-a.Rows))
		}
	}
	return all
}

// limitOutliers moves each value to within outlierLimit times the distance from the median of its
// column that 99 % of the values have. One broken value would otherwise be most of the deviation
// of its column, and hide a shift of all other rows.
func limitOutliers(x blas32.General) {
	values := make([]float64, x.Rows)
	for j := range x.Cols {
		column := func(set func(v float64) float64) {
			for i := range values {
				values[i] = set(float64(rows.Row(x, i)[j]))
			}
		}
		column(func(v float64) float64 { return v })
		median := quantile.Select(values, len(values)/2)
		column(func(v float64) float64 { return math.Abs(v - median) })
		limit := outlierLimit * quantile.Select(values, len(values)*99/100)
		for i := range x.Rows {
			if v := &rows.Row(x, i)[j]; limit > 0 {
				*v = float32(min(max(float64(*v), median-limit), median+limit))
			}
		}
	}
}

// project returns the first k principal components of the rows of x, whose columns have mean
// 0, and the directions of these components as columns.
func project(ctx context.Context, x blas32.General, k int) (blas32.General, blas64.General, error) {
	m, err := moments.Of(ctx, x, make([]int, x.Rows), 1)
	if err != nil {
		return blas32.General{}, blas64.General{}, err
	}
	s, err := eigen.NewSpectrum(m.Covariance())
	if err != nil {
		return blas32.General{}, blas64.General{}, fmt.Errorf("principal components: %w", err)
	}
	directions := s.Components(x.Cols-k, k)
	y := dense.Project(x, nil, directions)
	return blas32.General{Rows: x.Rows, Cols: k, Stride: k, Data: dense.Single(y.Data)}, directions, nil
}
