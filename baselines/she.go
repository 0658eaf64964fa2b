package baselines

import (
	"context"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// SHE compares features with the pattern that is stored for the predicted class.
var SHE = ood.Method{
	Name: "she",
	Doc: "Simplified Hopfield energy: minus the inner product of the features with the pattern of the predicted class, the mean of the " +
		"training features predicted as that class. Where labels are given, rows that they contradict are left out of the patterns, as in " +
		"the paper. A class that no row is an example of has a pattern of zeros.",
	Ref:   "Zhang et al. 2023, ICLR, OpenReview KkazG4lgKL",
	Needs: ood.NeedFeatures | ood.NeedLogits,
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		if err := p.Reader().Err(); err != nil {
			return nil, err
		}
		return fitSHE(ctx, t)
	},
	Restore: func(st heads.State) (ood.Scorer, error) {
		c, err := whole(st, "classes", leastLogits)
		if err != nil {
			return nil, err
		}
		h, err := whole(st, "width", 1)
		if err != nil {
			return nil, err
		}
		m, err := finiteMatrix64(st, "patterns", c, h)
		if err != nil {
			return nil, err
		}
		return she{m}, nil
	},
}

type she struct {
	patterns blas64.General // c×h
}

func fitSHE(ctx context.Context, t ood.Training) (ood.Scorer, error) {
	if err := checkBoth(t, "she"); err != nil {
		return nil, err
	}
	classes, err := correctClasses(t)
	if err != nil {
		return nil, err
	}
	return she{classMeans(t.Features, classes, t.Logits.Cols)}, ctx.Err()
}

// Score implements ood.Scorer.
func (s she) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkBothWidths(b, s.patterns.Cols, s.patterns.Rows); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	for i := range dst {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		y := newSoftmax(row(b.Logits, i), 1).top
		pattern := s.patterns.Data[y*s.patterns.Stride:]
		dst[i] = 0
		for j, v := range row(b.Features, i) {
			dst[i] -= float64(v) * pattern[j]
		}
	}
	return dst, nil
}

// State implements heads.Stater.
func (s she) State() heads.State {
	return heads.State{
		Params: map[string]any{"classes": float64(s.patterns.Rows), "width": float64(s.patterns.Cols)},
		Arrays: map[string]heads.Array{"patterns": matrixArray(s.patterns)},
	}
}
