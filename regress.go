package attach

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/ood"
)

// predictQuantiles returns the quantiles of the targets for rows whose features are already
// scaled.
func (b *Bundle) predictQuantiles(r ood.Batch, levels []float64) (ood.Quantiles, error) {
	return b.Base.quantilesOf(b.IntervalModel.scorer, r, levels)
}

// quantilesOf returns the quantiles of the targets that a fitted interval model predicts for
// rows whose features are already scaled.
func (b Base) quantilesOf(model *fitting.Scorer, r ood.Batch, levels []float64) (ood.Quantiles, error) {
	q, err := model.Predict(r.Features, levels)
	if err != nil || !b.Residual {
		return q, err
	}
	for i := range q.Rows {
		for t := range q.Targets {
			prediction := r.Logits.Data[i*r.Logits.Stride+t]
			for l := range q.Row(i, t) {
				q.Row(i, t)[l] += prediction
			}
		}
	}
	return q, nil
}

// subtract returns a − b. Both matrices have the same shape.
func subtract(a, b blas32.General) blas32.General {
	out := rows.New(a.Rows, a.Cols)
	for i := range a.Rows {
		for j, v := range rows.Row(a, i) {
			rows.Row(out, i)[j] = v - rows.Row(b, i)[j]
		}
	}
	return out
}

// calibrateQuantiles returns, for each target, the quantiles q of the calibration rows and
// their true values y.
func calibrateQuantiles(q ood.Quantiles, y blas32.General) ([]calibrate.QuantileCalibration, error) {
	if q.Targets != y.Cols {
		return nil, fmt.Errorf("it predicts %s, but the calibration rows have %d", rows.Count(q.Targets, "target"), y.Cols)
	}
	levels := q.Levels
	grid := blas32.General{Rows: q.Rows, Cols: q.Targets * len(levels), Stride: q.Targets * len(levels), Data: q.Data}
	if notFinite, ok := errors.AsType[*rows.NotFiniteError](rows.CheckFinite("quantiles", grid)); ok {
		return nil, fmt.Errorf("calibration row %d has no finite quantiles, because its features are far too large; remove it", notFinite.Row)
	}
	out := make([]calibrate.QuantileCalibration, q.Targets)
	for t := range out {
		out[t].Levels = levels
		for i := range q.Rows {
			out[t].Grid = append(out[t].Grid, q.Row(i, t)...)
			out[t].Y = append(out[t].Y, y.Data[i*y.Stride+t])
		}
	}
	return out, nil
}

// withinReach reports whether no quantile exceeds reach in magnitude. It returns false if one
// is NaN.
func withinReach(quantiles []float32, reach float64) bool {
	for _, v := range quantiles {
		if !(math.Abs(float64(v)) <= reach) {
			return false
		}
	}
	return true
}

// predictTargets sets the Targets of each prediction. It reports which rows have a target
// about which the interval model has no information.
func (p *Predictor) predictTargets(out []Prediction, r Rows) (unknown []bool, err error) {
	targets := r.Logits.Cols
	var q ood.Quantiles
	var folds []ood.Quantiles
	if p.bundle.IntervalModel != nil {
		if n := len(p.bundle.Calibration.Quantiles); n > 0 && targets != n && (targets > 0 || p.bundle.Base.Residual) {
			return nil, fmt.Errorf("the rows have %s, but the interval model predicts %s", rows.Count(targets, "logit"), rows.Count(n, "target"))
		}
		if q, err = p.bundle.predictQuantiles(r.Batch, slices.Concat(p.intervalLevels, []float64{.5}, p.o.Levels)); err != nil {
			return nil, err
		}
		if folds, err = p.foldQuantiles(r.Batch); err != nil {
			return nil, err
		}
		targets = q.Targets
	}
	all, nan := make([]Target, len(out)*targets), math.NaN()
	for i := range out {
		out[i].Targets = all[i*targets : (i+1)*targets : (i+1)*targets]
		for t := range out[i].Targets {
			target := &out[i].Targets[t]
			*target = Target{Value: nan, Median: nan, Lower: nan, Upper: nan}
			if r.Logits.Cols > 0 {
				target.Value = float64(r.Logits.Data[i*r.Logits.Stride+t])
			}
		}
	}
	if p.bundle.IntervalModel == nil {
		return nil, nil
	}
	return p.setQuantiles(out, r, q, folds), nil
}

// setQuantiles sets the medians, quantiles, intervals and samples of predictions from the
// quantiles q, and those of the models of the folds. Like predictTargets, it reports unknown
// rows.
func (p *Predictor) setQuantiles(out []Prediction, r Rows, q ood.Quantiles, folds []ood.Quantiles) (unknown []bool) {
	samples := 0
	if p.calibrated != nil {
		samples = p.o.Samples
	}
	buffer := make([]float64, len(out)*q.Targets*(len(p.o.Levels)+samples))
	next := func(n int) (part []float64) {
		if n > 0 {
			part, buffer = buffer[:n:n], buffer[n:]
		}
		return part
	}
	bands, known := make([][]float32, q.Targets), make([]bool, q.Targets)
	lower, upper, direction := make([]float64, q.Targets), make([]float64, q.Targets), make([]float64, q.Targets)
	weights := p.weights(r)
	unknown = make([]bool, len(out))
	for i := range out {
		group := ""
		if r.Groups != nil {
			group = r.Groups[i]
		}
		c := p.calibrationOf(group)
		firstDraw := uint64((r.First + i) * q.Targets)
		for t := range q.Targets {
			row, target := q.Row(i, t), &out[i].Targets[t]
			reach := math.MaxFloat32
			if c != nil {
				reach = c.reach[t]
			}
			bands[t], known[t] = row[:len(p.intervalLevels)], withinReach(row, reach)
			unknown[i] = unknown[i] || !known[t]
			target.Quantiles = next(len(p.o.Levels))
			for l, v := range row[len(p.intervalLevels):] {
				value := float64(v)
				if !known[t] {
					value = quantile.Unknown(q.Levels[len(p.intervalLevels)+l])
				}
				if l == 0 {
					target.Median = value
				} else {
					target.Quantiles[l-1] = value
				}
			}
		}
		if c == nil {
			continue
		}
		intervals := c.Intervals
		if weights != nil {
			intervals = intervals.WithWeight(weights[i])
		}
		if folds != nil {
			foldBands := c.bandsOf(folds, i, known)
			unknown[i] = slices.Contains(known, false)
			c.cross.Predict(lower, upper, foldBands)
		} else {
			intervals.Predict(lower, upper, bands, uint64(r.First+i))
		}
		if c.ellipsoids != nil {
			ellipsoids := *c.ellipsoids
			if weights != nil {
				ellipsoids = ellipsoids.WithWeight(weights[i])
			}
			region := ellipsoids.Predict(bands)
			if unknown[i] {
				region.Radius = math.Inf(1)
			}
			out[i].Ellipsoid = &region
			for t := range q.Targets {
				direction[t] = 1
				lower[t], upper[t] = region.Interval(direction)
				direction[t] = 0
			}
		}
		for t := range q.Targets {
			target := &out[i].Targets[t]
			target.Lower, target.Upper = lower[t], upper[t]
			if !known[t] {
				target.Lower, target.Upper = math.Inf(-1), math.Inf(1)
			}
			target.Samples = next(samples)
			var d calibrate.Distribution // if nothing is known about the target, the zero value samples ±Inf
			if known[t] && samples > 0 {
				d = c.distributions[t](bands[t])
				if weights != nil {
					d = d.WithWeight(weights[i])
				}
			}
			d.Sample(target.Samples, p.o.Seed, firstDraw+uint64(t))
		}
	}
	return unknown
}

// fitsIntervals reports whether an interval model is to be fitted.
func (in FitOptions) fitsIntervals() bool { return in.Base.Task == Regression && !in.SkipIntervals }

// checkOutOfFold returns an error unless OutOfFold has one prediction for each target of each
// fit row.
func (in FitOptions) checkOutOfFold() error {
	o := in.OutOfFold
	switch {
	case in.IntervalFit != "" && in.IntervalFit != "fit":
		return fmt.Errorf("out-of-fold predictions are for intervals that learn from the fit rows, but IntervalFit is %q", in.IntervalFit)
	case in.Batch.Logits.Cols == 0:
		return errors.New("out-of-fold predictions need rows with the model's own predictions too")
	case o.Rows != in.Batch.Len() || o.Cols != in.Batch.Logits.Cols:
		return fmt.Errorf("the out-of-fold predictions are %d×%d, but there are %s with %s", o.Rows, o.Cols, rows.Count(in.Batch.Len(), "fit row"), rows.Count(in.Batch.Logits.Cols, "prediction"))
	case in.Targets.Rows == o.Rows && in.Targets.Cols == o.Cols && !slices.ContainsFunc(subtract(in.Targets, o).Data, func(e float32) bool { return e != 0 }):
		return errors.New("the out-of-fold predictions are the targets themselves, so there are no errors to learn; give the predictions of cross-validation")
	}
	return rows.CheckFinite("out-of-fold predictions", o)
}

// maxForestRows is the largest number of rows for which a quantile forest is the default
// interval model, because its file has about 650 bytes per row.
const maxForestRows = 100_000

// withQuantileDefaults returns the options with the interval method and its parameters filled
// in. It returns an error if they do not suit the task, or if one of them is invalid.
func (in FitOptions) withQuantileDefaults() (FitOptions, error) {
	switch in.IntervalFit {
	case "", "fit", "calibration", "cross", surrogateErrors:
	default:
		return in, fmt.Errorf("IntervalFit is %q; it must be fit, calibration, cross, surrogate or empty", in.IntervalFit)
	}
	if in.IntervalScore != "" && !slices.Contains(conformal.IntervalScores(), in.IntervalScore) {
		return in, fmt.Errorf("unknown interval score %q: choose one of %s", in.IntervalScore, strings.Join(conformal.IntervalScores(), ", "))
	}
	if !in.fitsIntervals() {
		if in.IntervalFit != "" || in.IntervalScore != "" || in.OutOfFold.Rows > 0 || in.IntervalModel.Name != "" || in.IntervalModel.Fit != nil || len(in.IntervalParams) > 0 {
			return in, fmt.Errorf("interval method %q or its parameters are given, but no interval model is fitted, because the task is %q", in.IntervalModel.Name, in.Base.Task)
		}
		return in, nil
	}
	if in.OutOfFold.Rows > 0 {
		if err := in.checkOutOfFold(); err != nil {
			return in, err
		}
		in.Base.Residual = true
	}
	if in.IntervalFit == surrogateErrors && !in.Base.Residual {
		return in, errors.New("a surrogate model has no effect, because the interval model learns the targets and not the errors of predictions (Base.Residual); let the fit rows or calibration rows teach it")
	}
	if in.IntervalModel.Name == "" && in.IntervalModel.Fit == nil {
		in.choosesIntervals = len(in.IntervalParams) == 0
		in.IntervalModel = methodsByName("sqr")[0]
		if in.Base.Residual && len(in.IntervalParams) == 0 && in.Batch.Len() <= maxForestRows {
			in.IntervalModel, in.IntervalParams = methodsByName("quantile-forest")[0], ood.Params{"n_estimators": 50, "min_samples_leaf": 5}
		}
	}
	if !in.IntervalModel.Needs.Targets {
		return in, fmt.Errorf("method %s is a detector, not an interval method", in.IntervalModel.Name)
	}
	if err := checkMethod(in.IntervalModel); err != nil {
		return in, err
	}
	var err error
	in.IntervalParams, err = fitting.With(in.IntervalModel, in.IntervalParams)
	return in, err
}

func (b *Bundle) fitQuantiles(ctx context.Context, in FitOptions, d rowSplit) error {
	fitted, d, err := b.fitIntervalModel(ctx, &in, d)
	if err != nil {
		return fmt.Errorf("interval model: %w", err)
	}
	b.IntervalModel = &Fitted{Method: in.IntervalModel.Name, Params: in.IntervalParams, scorer: fitted}
	q, err := b.calibrationQuantiles(d.cal)
	if err == nil {
		b.Calibration.Quantiles, err = calibrateQuantiles(q, d.calTargets)
	}
	if err == nil {
		err = checkSavable(in.IntervalModel, fitted)
	}
	if err != nil {
		return fmt.Errorf("interval model: %w", err)
	}
	for t := range b.Calibration.Quantiles {
		b.Calibration.Quantiles[t].Weights = d.calWeights
	}
	b.Calibration.Groups = slices.Clone(d.calGroups)
	in.Progress("quantiles", 1)
	return nil
}

// fitOn fits the interval model on rows. The function progress reports the fraction that is
// done.
func (in FitOptions) fitOn(ctx context.Context, r ood.Batch, targets blas32.General, mayRetain bool, progress func(done float64)) (*fitting.Scorer, error) {
	if in.Base.Residual {
		targets = subtract(targets, r.Logits)
	}
	t := ood.Training{
		Batch: r, Targets: targets, Levels: in.fittedLevels(), Trainer: in.Trainer, Regression: true, Seed: in.Seed,
		MayRetain: mayRetain, Progress: progress,
	}
	if err := fitting.Check(in.IntervalModel, t, in.IntervalParams); err != nil {
		return nil, err
	}
	return fitting.Fit(ctx, in.IntervalModel, t, in.IntervalParams)
}

// fittedLevels returns the quantile levels for a method that fits each level separately: the
// two ends of the default interval. If the method accepts more levels, it adds three in the
// middle, for medians and samples.
func (in FitOptions) fittedLevels() []float64 {
	alpha := 1 - in.Level
	levels := []float64{alpha / 2, 1 - alpha/2}
	if in.IntervalModel.Needs.Levels {
		levels = append(levels, .25, .5, .75)
	}
	slices.Sort(levels)
	return slices.Compact(levels)
}
