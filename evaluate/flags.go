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

// flags evaluates the scores of in-distribution rows.
func (g *accumulator) flags(e *Evaluation) *Flags {
	f := &Flags{ByAlpha: flagged(g.pValues, g.o.Alphas), PValues: g.pHistogram(g.pValues, g.predicted)}
	p := g.at[g.main]
	cal := slices.Sorted(slices.Values(g.bundle.Calibration.OOD))
	if !p.Options().FlagByClass { // p-values by class rank scores only within a class
		distance, probability := hypothesis.Kolmogorov(cal, slices.Sorted(slices.Values(g.scores)))
		f.PValues.KSStatistic, f.PValues.KSPValue = &distance, &probability
	}
	alarm := func(i int) bool { return g.pValues[i] <= e.Alpha }
	f.ByClass, f.ByGroup = g.byLabel().rates(alarm, nil), g.byGroup().rates(alarm, nil)
	for _, r := range f.ByAlpha {
		if !p.Options().FlagByClass {
			e.judgeFlags(Guarantee{Rate: r}, calibrate.Conformal{Scores: cal}, 1)
			continue
		}
		of := g.byPredicted().rates(func(i int) bool { return g.pValues[i] <= r.Nominal }, nil)
		for _, one := range of {
			one.Nominal = r.Nominal
			e.judgeFlags(Guarantee{Rate: one, Part: "predicted class"}, p.Conformal(one.part), len(of))
		}
	}
	return f
}

// judgeFlags tests the guarantee of a false-alarm rate, which comes from ranks among the
// calibration scores.
func (e *Evaluation) judgeFlags(p Guarantee, by calibrate.Conformal, together int) {
	p.Kind = hypothesis.FalseAlarmRate
	threshold := by.Threshold(p.Nominal)
	for _, s := range by.Scores {
		if s > threshold {
			p.scoresAbove++
		}
	}
	e.judge(p, len(by.Scores), together)
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

// pHistogram counts the p-values of rows with these predicted classes.
func (g *accumulator) pHistogram(pValues []float64, predicted []int) Histogram {
	h, rows := Histogram{Counts: hypothesis.Counts(pValues), Expected: make([]float64, hypothesis.Bins)}, map[int]int{}
	for _, class := range predicted {
		rows[len(g.at[g.main].Conformal(class).Scores)]++
	}
	for _, n := range slices.Sorted(maps.Keys(rows)) {
		floats.Add(h.Expected, hypothesis.PValues(rows[n], n))
	}
	return h
}

// ood evaluates the scores of out-of-distribution rows.
func (g *accumulator) ood(ctx context.Context) (*OOD, error) {
	var scores, pValues []float64
	var predicted []int
	o := g.at[g.main].Options()
	o.Levels = nil
	p, err := g.bundle.Predictor(o)
	if err != nil {
		return nil, err
	}
	for r, err := range g.o.OOD {
		if grouped := g.bundle.Calibration.Groups != nil; err == nil && grouped != (r.Groups != nil) {
			r.Groups = nil
			if grouped {
				r.Groups = make([]string, r.Len()) // scores do not depend on the group
			}
		}
		var predictions []attach.Prediction
		if err == nil {
			predictions, err = p.Predict(ctx, r)
		}
		if err != nil {
			return nil, err
		}
		for _, one := range predictions {
			scores, pValues, predicted = append(scores, one.Score), append(pValues, one.PValue), append(predicted, one.Class)
		}
	}
	if len(scores) == 0 {
		return nil, errors.New("there are no out-of-distribution rows")
	}
	m, err := measure.Evaluate(g.scores, scores)
	if err != nil {
		return nil, err
	}
	return &OOD{Rows: len(scores), ByAlpha: flagged(pValues, g.o.Alphas), PValues: g.pHistogram(pValues, predicted), AUROC: m.AUROC, FPR95: m.FPR95}, nil
}
