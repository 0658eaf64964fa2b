package baselines

import (
	"context"
	"errors"
	"fmt"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// fusedFolds is the number of parts that rows are calibrated in.
const fusedFolds = 5

// crossFit fits the components in their default configurations, and calibrates
// them with the scores of every row by components that were fitted without the
// row's fold (Vovk 2015, "Cross-conformal predictors").
func (f fusion) crossFit(ctx context.Context, t ood.Training) ([]fusedPart, error) {
	t.Cache = &ood.Cache{}
	folds := calibrate.Folds(t.Len(), fusedFolds, t.Seed)
	parts, held := make([]fusedPart, len(f.components)), make([][]float64, len(f.components))
	for i := range held {
		held[i] = make([]float64, t.Len())
	}
	done, fits := 0, (len(folds)+1)*len(f.components)
	fit := func(i int, part ood.Training) (ood.Scorer, error) {
		if t.Progress != nil {
			part.Progress = func(share float64) { t.Progress((float64(done) + share) / float64(fits)) }
		}
		m := f.components[i]
		s, err := m.Fit(ctx, part, m.Default)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		done++
		if t.Progress != nil {
			t.Progress(float64(done) / float64(fits))
		}
		return s, nil
	}
	for _, fold := range folds {
		part, out := t.Without(fold), t.Batch.Select(fold)
		for i, m := range f.components {
			s, err := fit(i, part)
			if err != nil {
				return nil, fewerRows(err, part.Len(), t.Len())
			}
			scores, err := s.Score(ctx, nil, out)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.Name, err)
			}
			for j, r := range fold {
				held[i][r] = scores[j]
			}
		}
	}
	for i, m := range f.components {
		s, err := fit(i, t)
		if err != nil {
			return nil, err
		}
		c, err := calibrate.NewConformal(held[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		parts[i] = fusedPart{m.Name, f.weights[i], s, newSurprise(c)}
	}
	return parts, nil
}

// fewerRows says of an error that it is of a fit with some of the rows: where
// they were too few, how many of all it takes.
func fewerRows(err error, some, all int) error {
	few := (*heads.TooFewRowsError)(nil)
	if errors.As(err, &few) {
		return &heads.TooFewRowsError{What: few.What, Have: all, Need: few.Need + (few.Need+fusedFolds-2)/(fusedFolds-1)}
	}
	return fmt.Errorf("fitted with %d of %d rows, the others to calibrate with: %w", some, all, err)
}
