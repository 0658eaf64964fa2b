package evaluate

import (
	"context"
	"errors"
	"maps"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/internal/numeric/measure"
)

// evaluateFlags evaluates the flags of in-distribution rows, and tests their guarantees.
func (g *accumulator) evaluateFlags(e *Evaluation) *Flags {
	f := &Flags{ByAlpha: flagged(g.pValues, g.o.Alphas), PValues: g.pHistogram(g.pValues, g.predicted, e)}
	p := g.predictors[g.mainLevel]
	cal := slices.Sorted(slices.Values(g.bundle.Calibration.OOD))
	// P-values by class do not rank the scores of all classes together, and weights make
	// scores differ from those of the calibration rows.
	if !p.Options().FlagByClass && !g.weighted() {
		distance, probability := hypothesis.Kolmogorov(cal, slices.Sorted(slices.Values(g.scores)))
		f.PValues.KSStatistic, f.PValues.KSPValue = &distance, &probability
	}
	isFlagged := func(i int) bool { return g.pValues[i] <= e.Alpha }
	f.ByClass, f.ByGroup = g.byLabel().rates(isFlagged, nil), g.byGroup().rates(isFlagged, nil)
	for _, r := range f.ByAlpha {
		if !p.Options().FlagByClass {
			e.judgeFlags(Guarantee{Rate: r}, calibrate.Conformal{Scores: cal}, 1)
			continue
		}
		rates := g.byPredicted().rates(func(i int) bool { return g.pValues[i] <= r.Nominal }, nil)
		for _, rate := range rates {
			rate.Nominal = r.Nominal
			e.judgeFlags(Guarantee{Rate: rate, Part: "predicted class"}, p.Conformal(rate.part), len(rates))
		}
	}
	return f
}

// judgeFlags tests the guarantee of a false-alarm rate. The p-values were computed from the
// given calibration scores, and tests is the number of guarantees that are tested together.
func (e *Evaluation) judgeFlags(p Guarantee, calibration calibrate.Conformal, tests int) {
	p.Kind = hypothesis.FalseAlarmRate
	threshold := calibration.Threshold(p.Nominal)
	for _, s := range calibration.Scores {
		if s > threshold && e.EffectiveSampleSize == 0 {
			p.scoresAbove++
		}
	}
	e.judge(p, len(calibration.Scores), tests)
}

func flagged(pValues, alphas []float64) []Rate {
	var list []Rate
	for _, alpha := range alphas {
		r := rateWhere(len(pValues), func(i int) bool { return pValues[i] <= alpha }, nil)
		r.Nominal = alpha
		list = append(list, *r)
	}
	return list
}

// pHistogram returns the histogram of the p-values of rows with these predicted classes. The
// expected counts depend on the number of calibration rows of each class.
func (g *accumulator) pHistogram(pValues []float64, predicted []int, e *Evaluation) Histogram {
	h, rows := Histogram{Counts: hypothesis.Counts(pValues), Expected: make([]float64, hypothesis.Bins)}, map[int]int{}
	for _, class := range predicted {
		rows[e.effective(len(g.predictors[g.mainLevel].Conformal(class).Scores))]++
	}
	for _, n := range slices.Sorted(maps.Keys(rows)) {
		floats.Add(h.Expected, hypothesis.PValues(rows[n], n))
	}
	return h
}

// evaluateOOD evaluates the flags of out-of-distribution rows.
func (g *accumulator) evaluateOOD(ctx context.Context, e *Evaluation) (*OOD, error) {
	var scores, pValues []float64
	var predicted []int
	o := g.predictors[g.mainLevel].Options()
	o.Levels = nil
	p, err := g.bundle.Predictor(o)
	if err != nil {
		return nil, err
	}
	for r, err := range g.o.OOD {
		if grouped := g.bundle.Calibration.Groups != nil; err == nil && grouped != (r.Groups != nil) {
			r.Groups = nil
			if grouped {
				r.Groups = make([]string, r.Len()) // any group will do, because scores do not depend on it
			}
		}
		var predictions []attach.Prediction
		if err == nil {
			predictions, err = p.Predict(ctx, r)
		}
		if err != nil {
			return nil, err
		}
		for _, prediction := range predictions {
			scores, pValues, predicted = append(scores, prediction.Score), append(pValues, prediction.PValue), append(predicted, prediction.Class)
		}
	}
	if len(scores) == 0 {
		return nil, errors.New("there are no out-of-distribution rows")
	}
	m, err := measure.Evaluate(g.scores, scores)
	if err != nil {
		return nil, err
	}
	return &OOD{Rows: len(scores), ByAlpha: flagged(pValues, g.o.Alphas), PValues: g.pHistogram(pValues, predicted, e), AUROC: m.AUROC, FPR95: m.FPR95}, nil
}
