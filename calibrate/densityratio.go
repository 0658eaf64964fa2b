package calibrate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/numeric/logistic"
	"github.com/attach-uncertainty/attach/internal/numeric/moments"
)

const (
	// ratioFolds is the number of parts for cross-fitting.
	ratioFolds = 5
	// ratioRows is the smallest number of rows of each kind for each principal component, and
	// ratioComponents the largest number of components.
	ratioRows       = 20
	ratioComponents = 20
	// ratioPenalty is the penalty of the logistic regressions.
	ratioPenalty = 1
	// ratioLimit bounds ratios to 1/ratioLimit … ratioLimit. Larger ratios would give a few
	// rows all the weight.
	ratioLimit = 50
	// minEffectiveSampleSize is the smallest EffectiveSampleSize that NewDensityRatio accepts.
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
// also returns the weights of the calibration rows, and an error if their
// EffectiveSampleSize is below 30.
//
// A penalised logistic regression tells the two kinds of rows apart by the first principal
// components of standardised features. Its odds, divided by the ratio of the numbers of rows,
// estimate the ratio of densities. A regression that saw a row would overestimate how well
// it recognises this row. Each of five parts of the rows, drawn by seed, is therefore judged
// by a regression on the other four (cross-fitting). A second regression on these
// judgements, with one slope and one intercept, calibrates the odds (Platt scaling). The
// weights of calibration rows come from these judgements. The ratio of other rows is the
// geometric mean of the five ratios, calibrated in the same way.
//
// References: Bickel, Brückner & Scheffer (2009), Discriminative Learning Under Covariate
// Shift; Platt (1999), Probabilistic Outputs for Support Vector Machines.
func NewDensityRatio(ctx context.Context, calibration, target blas32.General, seed uint64) (DensityRatio, []float64, error) {
	n, m := calibration.Rows, target.Rows
	switch {
	case calibration.Cols != target.Cols:
		return DensityRatio{}, nil, fmt.Errorf("calibration rows have %d features and target rows have %d: they must be equal", calibration.Cols, target.Cols)
	case min(n, m) < minEffectiveSampleSize:
		return DensityRatio{}, nil, fmt.Errorf("there are %s and %s: a density ratio needs at least %d of each",
			rows.Count(n, "calibration row"), rows.Count(m, "target row"), minEffectiveSampleSize)
	}
	all := stack(calibration, target)
	if err := rows.CheckFinite("features", all); err != nil {
		return DensityRatio{}, nil, err
	}
	scaling := rows.NewScaling(all)
	x, components, err := project(ctx, scaling.Apply(all), min(max(min(n, m)/ratioRows, 1), ratioComponents, all.Cols))
	if err != nil {
		return DensityRatio{}, nil, err
	}
	judged, w, b, err := crossFit(ctx, x, n, seed)
	if err != nil {
		return DensityRatio{}, nil, err
	}
	platt, intercept, err := logistic.Problem{X: judged, Negatives: n, Lambda: ratioPenalty}.Solve(ctx)
	if err != nil {
		return DensityRatio{}, nil, fmt.Errorf("logistic regression: %w", err)
	}
	slope := max(platt[0], 0) // a negative slope only means that the regressions learned nothing
	if slope == 0 {
		intercept = math.Log(float64(m) / float64(n))
	}
	r := DensityRatio{make([]float64, all.Cols), slope*b + intercept - math.Log(float64(m)/float64(n))}
	for j := range r.Coefficients {
		if scaling.Deviation[j] > 0 {
			r.Coefficients[j] = slope * blas64.Dot(dense.Vector(dense.Row(components, j)), dense.Vector(w)) / scaling.Deviation[j]
			r.Intercept -= r.Coefficients[j] * scaling.Mean[j]
		}
	}
	weights := make([]float64, n)
	for i := range weights {
		weights[i] = boundedRatio(slope*float64(judged.Data[i]) + intercept - math.Log(float64(m)/float64(n)))
	}
	if size := EffectiveSampleSize(weights); size < minEffectiveSampleSize {
		return DensityRatio{}, nil, fmt.Errorf("the weighted calibration rows are worth only %.1f rows, and at least %d are needed: few of them are like the target rows, so calibrate with more rows or with rows like those",
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

// crossFit judges each row of x by the log-odds of a logistic regression on the other parts.
// The first n rows are calibration rows. It returns these log-odds as a column, and the mean
// coefficients of all regressions.
func crossFit(ctx context.Context, x blas32.General, n int, seed uint64) (judged blas32.General, w []float64, b float64, err error) {
	judged, w = rows.New(x.Rows, 1), make([]float64, x.Cols)
	part := make([]int, x.Rows)
	rng := rand.New(rand.NewPCG(seed, ratioStream))
	for _, kind := range [2][]int{part[:n], part[n:]} {
		for k, i := range rng.Perm(len(kind)) {
			kind[i] = k % ratioFolds
		}
	}
	for fold := range ratioFolds {
		var others []int
		negatives := 0
		for i, p := range part {
			if p != fold {
				others = append(others, i)
				if i < n {
					negatives++
				}
			}
		}
		coefficients, intercept, err := logistic.Problem{X: rows.Select(x, others), Negatives: negatives, Lambda: ratioPenalty}.Solve(ctx)
		if err != nil {
			return judged, nil, 0, fmt.Errorf("logistic regression: %w", err)
		}
		for i, p := range part {
			if p == fold {
				judged.Data[i] = float32(logistic.LogOdds(rows.Row(x, i), coefficients, intercept))
			}
		}
		for j, v := range coefficients {
			w[j] += v / ratioFolds
		}
		b += intercept / ratioFolds
	}
	return judged, w, b, nil
}
