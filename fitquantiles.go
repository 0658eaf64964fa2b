package attach

import (
	"context"
	"fmt"
	"slices"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

// quantiles says that a quantile head is fitted.
func (in FitOptions) quantiles() bool { return in.Base.Task == Regression && !in.SkipQuantiles }

// mostForestRows are the rows that a forest is fitted on by default, which take some
// 650 bytes each in the file.
const mostForestRows = 100_000

// withQuantileDefaults completes the quantile method and its parameters.
func (in FitOptions) withQuantileDefaults() (FitOptions, error) {
	if !in.quantiles() {
		if in.Quantiles.Name != "" || in.Quantiles.Fit != nil || len(in.QuantileParams) > 0 {
			return in, fmt.Errorf("quantile method %q or its parameters are given, and no quantile head is fitted: the task is %q", in.Quantiles.Name, in.Base.Task)
		}
		return in, nil
	}
	if in.Quantiles.Name == "" && in.Quantiles.Fit == nil {
		in.Quantiles = named("sqr")[0]
		if in.Base.Residual && len(in.QuantileParams) == 0 && in.Batch.Len() <= mostForestRows {
			in.Quantiles, in.QuantileParams = named("quantile-forest")[0], ood.Params{"n_estimators": 50, "min_samples_leaf": 5}
		}
	}
	if !in.Quantiles.Needs.Targets {
		return in, fmt.Errorf("method %s is a detector, and predicts no quantiles", in.Quantiles.Name)
	}
	if err := whole(in.Quantiles); err != nil {
		return in, err
	}
	var err error
	in.QuantileParams, err = fitting.With(in.Quantiles, in.QuantileParams)
	return in, err
}

func (b *Bundle) fitQuantiles(ctx context.Context, in FitOptions, d division) error {
	targets := d.fitTo
	if in.Base.Residual {
		targets = shifted(d.fitTo, d.fit.Logits, -1)
	}
	t := ood.Training{
		Batch: d.fit, Targets: targets, Levels: in.fittedLevels(), Trainer: in.Trainer, Regression: true, Seed: in.Seed,
		Stays: in.Stays || d.heldOut == rows.SplitOff, Progress: func(share float64) { in.Progress("quantiles", share) },
	}
	if err := fitting.Check(in.Quantiles, t, in.QuantileParams); err != nil {
		return fmt.Errorf("quantile head: %w", err)
	}
	fitted, err := fitting.Fit(ctx, in.Quantiles, t, in.QuantileParams)
	if err != nil {
		return fmt.Errorf("quantile head: %w", err)
	}
	b.Quantiles = &Fitted{Method: in.Quantiles.Name, Params: in.QuantileParams, scorer: fitted}
	q, err := b.quantiles(d.cal, calibrationLevels())
	if err == nil {
		b.Calibration.Quantiles, err = calibrateQuantiles(q, d.calTo)
	}
	if err == nil {
		err = savable(in.Quantiles, fitted)
	}
	if err != nil {
		return fmt.Errorf("quantile head: %w", err)
	}
	b.Calibration.Groups = slices.Clone(d.calGroups)
	in.Progress("quantiles", 1)
	return nil
}

// fittedLevels are the levels that matter to a method which fits each on its
// own: the ends of the default interval, and where it takes more, those of the
// middle, which medians and samples are made from.
func (in FitOptions) fittedLevels() []float64 {
	alpha := 1 - in.Level
	levels := []float64{alpha / 2, 1 - alpha/2}
	if in.Quantiles.Needs.Levels {
		levels = append(levels, .25, .5, .75)
	}
	slices.Sort(levels)
	return slices.Compact(levels)
}
