package evaluate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
)

// trial is a random half of the rows whose outputs are in the reservoir. One half chooses an
// option, and the other half measures it. Otherwise the advice would promise too much, because
// the chosen option is the best one partly by luck.
type trial struct {
	family        *family
	positions     []int // positions in the reservoir
	by            grouping
	distributions []hypothesis.Misses
}

// trials returns the two halves for a family whose guarantee has the given strata.
func (g *accumulator) trials(f *family, s strata) (choice, report trial) {
	by := f.by
	if f.searched() { // an option must not help this part at the cost of all other rows
		by = grouping{names: append(slices.Clone(by.names), "other rows"), index: slices.Clone(by.index)}
		for i, k := range by.index {
			if k < 0 {
				by.index[i] = len(by.names) - 1
			}
		}
	}
	order := rand.New(rand.NewPCG(g.predictors[g.mainLevel].Options().Seed, 0x7a1f)).Perm(len(g.outputs.rows))
	half := func(positions []int) trial {
		slices.Sort(positions)
		numbers := rows.Pick(g.outputs.rows, positions)
		parts := by.selectRows(numbers)
		return trial{f, positions, parts, s.selectRows(numbers).misses(parts, f.guarantee.alpha())}
	}
	return half(order[:len(order)/2]), half(order[len(order)/2:])
}

// measure returns what the option value achieves in the rows of the trial. c holds the outcomes
// of all sampled rows with that option. The result has no parts if the trial has no rows.
func (t trial) measure(value string, c outcomes) remedy {
	var half outcomes
	for _, at := range t.positions {
		half.add(c.covered[at], c.width[at])
	}
	other, failing := t.family.withOutcomes(t.by, half, t.distributions)
	r := remedy{value: value, failing: failing, width: meanWidth(half), part: math.NaN()}
	if len(other.parts) > 0 {
		r.worst = other.worst()
	}
	for _, rate := range other.parts {
		if rate.part == t.family.worstPart {
			r.part = rate.Fraction
		}
	}
	return r
}

// tryOptions returns the best option and what it achieves, compared with the current outcomes. The
// first half of the rows chooses the option. If it does not help in the second half, the value
// of after is empty.
func (g *accumulator) tryOptions(f *family, s strata, current outcomes, values []string, outcomesOf func(value string) (c outcomes, ok bool)) (before, after remedy) {
	choice, report := g.trials(f, s)
	all, others := map[string]outcomes{}, []remedy(nil)
	for _, value := range values {
		if c, ok := outcomesOf(value); ok {
			all[value] = c
			others = append(others, choice.measure(value, c))
		}
	}
	before = report.measure("", current)
	best := bestRemedy(choice.measure("", current), others)
	if best.value == "" {
		return before, remedy{}
	}
	if after = report.measure(best.value, all[best.value]); !(after.worst > before.worst && after.part > before.part) {
		after.value = ""
	}
	return before, after
}

// gain returns the words for what an option achieves, from before to after.
func (f *family) gain(before, after remedy) string {
	text := fmt.Sprintf("on held-out rows it covers them %s of the time instead of %s", display.Percent(after.part), display.Percent(before.part))
	if f.guarantee.Kind == hypothesis.SetCoverage {
		text += fmt.Sprintf(", with a mean set size of %s instead of %s", display.Number(after.width, 3), display.Number(before.width, 3))
	} else if ratio := after.width / before.width; !math.IsNaN(ratio) && !math.IsInf(ratio, 0) {
		comparison := "wider"
		if ratio < 1 {
			comparison = "narrower"
		}
		text += fmt.Sprintf(", with intervals that are %s %s on average", display.Percent(math.Abs(ratio-1)), comparison)
	}
	if after.failing > 0 && f.searched() {
		text += "; this is still too rarely"
	} else if after.failing > 0 {
		text += fmt.Sprintf("; %s of the %s still fail", display.Count(after.failing), rows.Count(len(f.parts), partNoun(f.part)))
	}
	return text
}

// maxRidgeRows is the largest number of calibration rows with which advice tries the score
// "ridge". The time that it takes for a row grows with this number.
const maxRidgeRows = 1000

// adviseIntervalScore advises a different interval score if it covers the parts of the
// rows more evenly than the current score. Otherwise it advises looking for features that
// predict where errors are large. For intervals that are cross-fitted or have one end, it gives no
// advice.
func (g *accumulator) adviseIntervalScore(f *family) (advice, option, value string) {
	o := g.predictors[g.mainLevel].Options()
	if o.Side != "" || g.bundle.Calibration.Folds != nil {
		return "", "", ""
	}
	// All scores are tested against the same distribution. Intervals with the score rcp are
	// calibrated on half of the rows, so their own distribution is wider and would hide more
	// misses.
	currentScore := cmp.Or(o.IntervalScore, conformal.CQR)
	s := g.intervalStrata(currentScore)
	current := g.sampled(g.targets[f.guarantee.Target].levels[g.mainLevel])
	before, after := g.tryOptions(f, s, current, conformal.IntervalScores(), func(score string) (c outcomes, ok bool) {
		if score == currentScore || score == conformal.Ridge && g.bundle.Calibration.IntervalRows() > maxRidgeRows || !slices.Equal(g.bundle.Calibration.Quantiles[0].Levels, quantile.Levels()) {
			return c, false
		}
		all, tried := g.outcomesByScore[score]
		if !tried {
			if predictor := g.predictorWith(func(o *attach.PredictOptions) { o.IntervalScore = score }); predictor != nil {
				all = g.outcomesOf(predictor.Intervals)
			}
			if g.outcomesByScore == nil {
				g.outcomesByScore = map[string][]outcomes{}
			}
			g.outcomesByScore[score] = all
		}
		if all == nil {
			return c, false
		}
		return all[f.guarantee.Target], true
	})
	if after.value == "" {
		return "no other interval score covers these rows more evenly; look for features that tell where errors are large", "", ""
	}
	return fmt.Sprintf("use the interval score %s: %s", after.value, f.gain(before, after)), "interval_score", after.value
}

// adviseGroups advises calibrating intervals by group. It tries this with half of the evaluated
// rows as calibration rows, because the groups of the calibration rows are unknown.
func (g *accumulator) adviseGroups(f *family) (advice, option, value string) {
	const advise = "calibrate intervals by group"
	if f.guarantee.Kind == hypothesis.JointCoverage || g.bundle.Calibration.Quantiles == nil || g.bundle.Calibration.Folds != nil {
		return advise, "groups", ""
	}
	o := g.predictors[g.mainLevel].Options()
	choice, report := g.trials(f, g.intervalStrata(cmp.Or(o.IntervalScore, conformal.CQR)))
	levels, counts := g.bundle.Calibration.Quantiles[0].Levels, map[string]int{}
	parts := map[string][]calibrate.QuantileCalibration{}
	for _, at := range choice.positions {
		row := g.outputs.rows[at]
		band := g.outputs.x[at*g.outputs.cols : (at+1)*g.outputs.cols]
		name := g.groups[row]
		if !finite(band) {
			continue
		}
		if parts[name] == nil {
			parts[name] = make([]calibrate.QuantileCalibration, len(g.targets))
		}
		counts[name]++
		for t := range g.targets {
			q := &parts[name][t]
			q.Levels = levels
			q.Grid = append(q.Grid, band[t*len(levels):(t+1)*len(levels)]...)
			q.Y = append(q.Y, float32(g.targets[t].truth[row]))
		}
	}
	least := hypothesis.LeastRows(hypothesis.Forgive(f.guarantee.alpha()))
	intervals := map[string]calibrate.Intervals{}
	for _, name := range f.by.names {
		if counts[name] < least {
			return advise + ", if each group has enough calibration rows", "groups", ""
		}
		v, err := calibrate.NewIntervals(parts[name], calibrate.IntervalOptions{Side: o.Side, Smoothed: o.Smoothed, Seed: o.Seed, Score: o.IntervalScore}, f.guarantee.alpha())
		if err != nil {
			return advise, "groups", ""
		}
		intervals[name] = v
	}
	c := g.outcomesIn(func(row int) calibrate.Intervals { return intervals[g.groups[row]] })[f.guarantee.Target]
	before, after := report.measure("", g.sampled(g.targets[f.guarantee.Target].levels[g.mainLevel])), report.measure("groups", c)
	if !(after.part > before.part) {
		return advise, "groups", ""
	}
	return advise + ": " + f.gain(before, after), "groups", ""
}

// adviseSets advises prediction sets by class, or another score, if parts of the rows are then
// covered more evenly. If labels fail and a class has too few calibration rows, it advises
// calibrating with more rows.
func (g *accumulator) adviseSets(f *family) (advice, option, value string) {
	const separate = "sets_by_class"
	o := g.predictors[g.mainLevel].Options()
	values := []string{separate}
	if f.part != byClass {
		values = append(values, conformal.LAC, conformal.APS, conformal.RAPS, conformal.SAPS)
	}
	s := g.setStrata()
	few := ""
	before, after := g.tryOptions(f, s, g.sampled(g.classes.sets[g.mainLevel]), values, func(value string) (c outcomes, ok bool) {
		predictor := g.predictorWith(func(o *attach.PredictOptions) {
			if value == separate {
				o.SetsByClass, o.SetsByCluster = true, false
			} else {
				o.Sets = value
			}
		})
		if predictor == nil || value == o.Sets || value == separate && o.SetsByClass {
			return c, false
		}
		if value == separate {
			if few = g.fewRowsOfClass(f, predictor); few != "" {
				return c, false
			}
		}
		return g.setOutcomes(predictor), true
	})
	switch {
	case after.value == separate:
		return "calibrate sets by class: " + f.gain(before, after), separate, ""
	case after.value != "":
		return fmt.Sprintf("use the set score %s: %s", after.value, f.gain(before, after)), "sets", after.value
	case f.part == byClass:
		return few, "", ""
	}
	return "", "", ""
}

// fewRowsOfClass returns advice if a class of the rows has too few calibration rows for sets by
// class.
func (g *accumulator) fewRowsOfClass(f *family, predictor *attach.Predictor) string {
	labels := g.byLabel()
	s := strata{index: labels.index}
	for k := range labels.names {
		_, n := predictor.Sets().Part(k)
		s.n = append(s.n, n)
	}
	return f.fewRowsAdvice(s, labels.index)
}

// setOutcomes returns the outcomes of the sampled rows with the sets of another predictor.
func (g *accumulator) setOutcomes(predictor *attach.Predictor) (c outcomes) {
	logits := blas32.General{Rows: len(g.outputs.rows), Cols: g.outputs.cols, Stride: g.outputs.cols, Data: g.outputs.x}
	for k, set := range predictor.Sets().Predict(logits, 0) {
		i := g.outputs.rows[k]
		if len(set) == 0 && !predictor.Options().Smoothed {
			set = []int{g.predicted[i]}
		}
		c.add(slices.Contains(set, g.labels[i]), float64(len(set)))
	}
	return c
}

// sampled returns the outcomes of the rows whose outputs are in the reservoir.
func (g *accumulator) sampled(c outcomes) outcomes {
	var out outcomes
	for _, i := range g.outputs.rows {
		out.add(c.covered[i], c.width[i])
	}
	return out
}

// outcomesOf returns the outcomes of the sampled rows for each target, with the intervals of a
// group.
func (g *accumulator) outcomesOf(intervals func(group string) calibrate.Intervals) []outcomes {
	return g.outcomesIn(func(row int) calibrate.Intervals {
		if g.bundle.Calibration.Groups == nil {
			return intervals("")
		}
		return intervals(g.groups[row])
	})
}

// outcomesIn returns the outcomes of the sampled rows for each target. It computes the intervals
// of each row from the quantiles in the reservoir.
func (g *accumulator) outcomesIn(intervals func(row int) calibrate.Intervals) []outcomes {
	out := make([]outcomes, len(g.targets))
	n, levels := len(g.targets), len(g.bundle.Calibration.Quantiles[0].Levels)
	lower, upper, bands := make([]float64, n), make([]float64, n), make([][]float32, n)
	for k, i := range g.outputs.rows {
		for t := range bands {
			from := k*g.outputs.cols + t*levels
			bands[t] = g.outputs.x[from : from+levels]
		}
		intervals(i).Predict(lower, upper, bands, uint64(i))
		for t, band := range bands {
			low, high, truth := lower[t], upper[t], g.targets[t].truth[i]
			if !finite(band) {
				low, high = math.Inf(-1), math.Inf(1)
			}
			out[t].add(low <= truth && truth <= high, high-low)
		}
	}
	return out
}

// finite reports whether all quantiles are finite.
func finite(band []float32) bool {
	return !slices.ContainsFunc(band, func(v float32) bool { return !(math.Abs(float64(v)) <= math.MaxFloat32) })
}
