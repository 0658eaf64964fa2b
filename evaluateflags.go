package attach

import (
	"context"
	"errors"
	"slices"

	"github.com/attach-uncertainty/attach/internal/evidence"
	"github.com/attach-uncertainty/attach/internal/measure"
)

// flags evaluates scores of rows from the domain.
func (g *gathering) flags(e *Evaluation) *FlagEvaluation {
	f := &FlagEvaluation{At: flagged(g.pValues, g.o.Alphas), PValues: g.pHistogram(g.pValues)}
	cal := g.at[g.main].ood.Scores
	distance, probability := evidence.Kolmogorov(cal, slices.Sorted(slices.Values(g.scores)))
	f.PValues.Distance, f.PValues.Probability = &distance, &probability
	alarm := func(i int) bool { return g.pValues[i] <= e.Alpha }
	f.ByClass, f.ByGroup = g.byLabel().rates(alarm, nil), g.byGroup().rates(alarm, nil)
	for _, r := range f.At {
		e.promise(Promise{Kind: "false_alarms", Rate: r}, len(cal), r.Asked, 1)
	}
	return f
}

func flagged(pValues, alphas []float64) []Rate {
	var list []Rate
	for _, alpha := range alphas {
		r := among(len(pValues), func(i int) bool { return pValues[i] <= alpha }, nil)
		r.Asked = alpha
		list = append(list, *r)
	}
	return list
}

// pHistogram is of p-values.
func (g *gathering) pHistogram(pValues []float64) Histogram {
	return Histogram{Counts: evidence.Counts(pValues), Expected: evidence.PValues(len(pValues), len(g.bundle.Calibration.OOD))}
}

// others evaluates scores of rows from elsewhere.
func (g *gathering) others(ctx context.Context) (*OthersEvaluation, error) {
	var scores, pValues []float64
	p := *g.at[g.main]
	p.o.Levels = nil
	for r, err := range g.o.Others {
		if grouped := g.bundle.Calibration.Groups != nil; err == nil && grouped != (r.Groups != nil) {
			r.Groups = nil
			if grouped {
				r.Groups = make([]string, r.Len()) // what is asked of these rows does not depend on it
			}
		}
		var predictions []Prediction
		if err == nil {
			predictions, err = p.Predict(ctx, r)
		}
		if err != nil {
			return nil, err
		}
		for _, one := range predictions {
			scores, pValues = append(scores, one.Score), append(pValues, one.PValue)
		}
	}
	if len(scores) == 0 {
		return nil, errors.New("there are no rows from elsewhere")
	}
	m, err := measure.Evaluate(g.scores, scores)
	if err != nil {
		return nil, err
	}
	return &OthersEvaluation{Rows: len(scores), At: flagged(pValues, g.o.Alphas), PValues: g.pHistogram(pValues), AUROC: m.AUROC, FPR95: m.FPR95}, nil
}
