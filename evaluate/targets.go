package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/internal/numeric/measure"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
)

// maxPoints is the largest number of Target.Points.
const maxPoints = 2000

// target collects the results for one target of a regressor.
type target struct {
	distributions        map[string]func([]float32) calibrate.Distribution // conformal predictive distributions, by group
	truth, value, median []float64
	lower, upper         []float64  // ends of the interval at the level of the predictor
	levels               []outcomes // one for each level
	forecastRows         int        // number of rows with finite quantiles; the fields below are only about these rows
	crps                 float64    // sum of the CRPS over rows
	pinball              []float64  // sums of the pinball loss over rows, for each of Target.PinballLevels
	pit, calibrated      []float64  // PIT of the targets in the predicted and in the calibrated distribution
}

// addTargets collects the results for a block of rows, from one slice of predictions for each
// level. It does nothing if the rows lack targets.
func (g *accumulator) addTargets(predictions [][]attach.Prediction, r attach.Rows) error {
	main, y := predictions[g.mainLevel], r.Targets
	switch {
	case y.Cols == 0:
		return nil
	case y.Cols != len(main[0].Targets):
		return fmt.Errorf("the rows have %s, and the model predicts %d", rows.Count(y.Cols, "target"), len(main[0].Targets))
	}
	if g.targets == nil {
		if err := g.newTargets(y.Cols); err != nil {
			return err
		}
	}
	intervals := g.bundle.Calibration.Quantiles != nil
	for t := range g.targets {
		acc := &g.targets[t]
		f := measure.Forecasts{Levels: g.predictors[g.mainLevel].Options().Levels}
		for i, row := range main {
			prediction, truth := row.Targets[t], float64(y.Data[i*y.Stride+t])
			acc.truth, acc.value = append(acc.truth, truth), append(acc.value, prediction.Value)
			if !intervals {
				continue
			}
			acc.median, acc.lower, acc.upper = append(acc.median, prediction.Median), append(acc.lower, prediction.Lower), append(acc.upper, prediction.Upper)
			for k := range predictions {
				at := predictions[k][i].Targets[t]
				acc.levels[k].add(at.Lower <= truth && truth <= at.Upper, at.Upper-at.Lower)
			}
			if slices.ContainsFunc(prediction.Quantiles, func(v float64) bool { return math.IsInf(v, 0) }) {
				continue
			}
			band := dense.Single(prediction.Quantiles)
			f.Quantiles, f.Y = append(f.Quantiles, band...), append(f.Y, truth)
			group := ""
			if r.Groups != nil {
				group = r.Groups[i]
			}
			if distribution, known := acc.distributions[group]; known {
				acc.calibrated = append(acc.calibrated, distribution(band).CDF(truth, .5))
			}
		}
		if n := len(f.Y); n > 0 {
			acc.forecastRows += n
			acc.crps += f.CRPS() * float64(n)
			for l, loss := range f.Pinball() {
				acc.pinball[l] += loss * float64(n)
			}
			acc.pit = append(acc.pit, f.PIT()...)
		}
	}
	if g.predictors[g.mainLevel].Options().Joint {
		for i := range main {
			for k := range predictions {
				g.joint[k].covered = append(g.joint[k].covered, containsTargets(predictions[k][i], rows.Row(y, i)))
			}
		}
	}
	return nil
}

func (g *accumulator) newTargets(n int) error {
	g.targets, g.joint = make([]target, n), make([]outcomes, len(g.predictors))
	for t := range g.targets {
		acc := &g.targets[t]
		acc.levels, acc.pinball = make([]outcomes, len(g.predictors)), make([]float64, len(g.predictors[g.mainLevel].Options().Levels))
		acc.distributions = map[string]func([]float32) calibrate.Distribution{}
		c := g.bundle.Calibration
		var parts map[string]calibrate.QuantileCalibration
		switch {
		case len(c.Quantiles) == 0 || g.weighted() || c.Folds != nil: // with weights or folds, levels have no uniform distribution over the calibration rows
		case c.Groups != nil:
			parts = c.Quantiles[t].ByGroup(c.Groups)
		default:
			parts = map[string]calibrate.QuantileCalibration{"": c.Quantiles[t]}
		}
		for group, part := range parts {
			var err error
			if acc.distributions[group], err = part.PredictiveSystem(); err != nil {
				return err
			}
		}
	}
	return nil
}

// targetEvaluations returns the results for each target. The list is empty if the rows lack
// targets.
func (g *accumulator) targetEvaluations(ctx context.Context, e *Evaluation) []Target {
	list := make([]Target, len(g.targets))
	o := g.predictors[g.mainLevel].Options()
	e.Region = o.Region
	if g.bundle.IntervalModel != nil && o.Side == "" && o.Region != conformal.Ellipsoid {
		e.IntervalScore = cmp.Or(o.IntervalScore, conformal.CQR)
	}
	var all []*Coverage
	var covered []outcomes
	for t := range g.targets {
		c, out := &g.targets[t], &list[t]
		if names := g.bundle.Base.Targets; t < len(names) {
			out.Name = names[t]
		}
		c.setErrors(out)
		if c.median == nil {
			continue
		}
		c.setPoints(out, g.predictors[g.mainLevel].Options().Seed)
		c.setDistribution(out, g.calibrationPIT(t))
		decile := c.deciles()
		out.Coverage = make([]Coverage, len(g.predictors))
		for k := range g.predictors {
			out.Coverage[k] = g.coverage(k, c.levels[k], &decile)
			out.Coverage[k].ByWidth = byIntervalWidth(c.levels[k].width).rates(func(i int) bool { return c.levels[k].covered[i] }, c.levels[k].width)
			all, covered = append(all, &out.Coverage[k]), append(covered, c.levels[k])
			if !g.predictors[g.mainLevel].Options().Joint {
				g.judgeCoverage(e, Guarantee{Kind: hypothesis.IntervalCoverage, Target: t}, out.Coverage[k])
			}
		}
	}
	if len(g.joint) > 0 && len(g.joint[0].covered) > 0 {
		e.Joint = make([]Coverage, len(g.predictors))
		for k := range g.predictors {
			e.Joint[k] = g.coverage(k, g.joint[k], nil)
			all, covered = append(all, &e.Joint[k]), append(covered, g.joint[k])
			g.judgeCoverage(e, Guarantee{Kind: hypothesis.JointCoverage, region: e.Region}, e.Joint[k])
		}
		e.Regions = g.regions.compare()
	}
	g.worstSlabs(ctx, all, covered)
	return list
}

// judgeCoverage tests the guarantee of a coverage: one for each group if the .attach file is
// calibrated by group, or else one for all rows.
func (g *accumulator) judgeCoverage(e *Evaluation, p Guarantee, c Coverage) {
	groups := map[string]int{}
	for _, name := range g.bundle.Calibration.Groups {
		groups[name]++
	}
	if len(groups) == 0 {
		p.Rate = c.Rate
		if calibration := g.bundle.Calibration; calibration.Folds != nil {
			p.least = new(calibration.LeastCoverage(c.Nominal))
		}
		e.judge(p, g.bundle.Calibration.IntervalRows(), 1)
		return
	}
	for _, r := range c.ByGroup {
		p.Rate = r
		p.Nominal, p.Name, p.Part = c.Nominal, cmp.Or(r.Name, `""`), "group" // an empty Name means all rows
		e.judge(p, groups[r.Name], len(c.ByGroup))
	}
}

// coverage returns the coverage at the k-th level. Results by decile are left out if decile is
// nil.
func (g *accumulator) coverage(k int, c outcomes, decile *grouping) Coverage {
	var widths []float64
	var sum float64
	for _, w := range c.width {
		if !math.IsInf(w, 0) {
			widths = append(widths, w)
			sum += w
		}
	}
	contains := func(i int) bool { return c.covered[i] }
	out := Coverage{Rate: *rateWhere(len(c.covered), contains, nil), Infinite: len(c.width) - len(widths), ByGroup: g.byGroup().rates(contains, c.width)}
	out.Nominal = g.predictors[k].Options().Level
	if n := len(widths); n > 0 {
		slices.Sort(widths)
		out.MeanWidth, out.MedianWidth = new(sum/float64(n)), new((widths[(n-1)/2]+widths[n/2])/2)
	}
	if decile != nil {
		out.ByDecile = decile.rates(contains, c.width)
	}
	return out
}

// setErrors sets RMSE, MAE and R² of the predictions of the model.
func (c *target) setErrors(out *Target) {
	if math.IsNaN(c.value[0]) {
		return
	}
	n := float64(len(c.truth))
	out.RMSE = new(floats.Distance(c.value, c.truth, 2) / math.Sqrt(n))
	out.MAE = new(floats.Distance(c.value, c.truth, 1) / n)
	if r2 := stat.RSquaredFrom(c.value, c.truth, nil); !math.IsInf(r2, 0) && !math.IsNaN(r2) {
		out.R2 = &r2
	}
}

// deciles groups rows by the decile of the prediction of the model. Without predictions, it
// uses the median of the interval model.
func (c *target) deciles() grouping {
	if math.IsNaN(c.value[0]) {
		return deciles(c.median)
	}
	return deciles(c.value)
}

// setPoints sets Points to a uniform random sample of the rows with finite intervals.
func (c *target) setPoints(out *Target, seed uint64) {
	for _, i := range rand.New(rand.NewPCG(seed, 0x9017)).Perm(len(c.truth)) {
		lower, upper := c.lower[i], c.upper[i]
		if math.IsInf(lower, 0) || math.IsInf(upper, 0) || len(out.Points) == maxPoints {
			continue
		}
		out.Points = append(out.Points, TargetPoint{Target: c.truth[i], Median: c.median[i], Lower: lower, Upper: upper})
	}
}

// setDistribution sets CRPS, the pinball loss and the PIT histograms. It compares the PIT with
// that of the calibration rows, unless calibration is nil.
func (c *target) setDistribution(out *Target, calibration []float64) {
	if c.forecastRows == 0 {
		return
	}
	n := float64(c.forecastRows)
	out.CRPS, out.PinballLevels = new(c.crps/n), quantile.Levels()
	for _, sum := range c.pinball {
		out.PinballLoss = append(out.PinballLoss, sum/n)
	}
	pit := histogram(c.pit)
	out.PIT = &pit
	if len(c.calibrated) == 0 {
		return
	}
	calibrated := histogram(c.calibrated)
	if calibration != nil {
		distance, probability := hypothesis.Kolmogorov(calibration, slices.Sorted(slices.Values(c.calibrated)))
		calibrated.KSStatistic, calibrated.KSPValue = &distance, &probability
	}
	out.PITCalibrated = &calibrated
}

// calibrationPIT returns the sorted levels of the targets of the calibration rows in their own
// conformal predictive distribution. It returns nil if each group has a distribution of its
// own, or if the rows have weights or are cross-fitted.
func (g *accumulator) calibrationPIT(t int) []float64 {
	if c := g.bundle.Calibration; c.Groups != nil || g.weighted() || c.Folds != nil {
		return nil
	}
	q, distribution := g.bundle.Calibration.Quantiles[t], g.targets[t].distributions[""]
	levels := make([]float64, len(q.Y))
	for i, y := range q.Y {
		levels[i] = distribution(q.Grid[i*len(q.Levels):(i+1)*len(q.Levels)]).CDF(float64(y), .5)
	}
	slices.Sort(levels)
	return levels
}
