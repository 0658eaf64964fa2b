package baselines

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// ViM scores with a logit made of what the principal space leaves over, set
// against the network's own.
var ViM = ood.Method{
	Name: "vim",
	Doc: "α times the norm that residual scores with, less the energy log Σ exp(logits). α is the mean of the largest logit over " +
		"the mean of the norm, on the training rows. k below 1 is a share of the features, and k stops short of all.",
	Ref:     "Wang et al. 2022, arXiv:2203.10807, eqs. 5 and 8",
	Needs:   ood.NeedFeatures | ood.NeedLogits | ood.NeedWeights,
	Memory:  squares(eigenSquares),
	Default: ood.Params{"k": .5},
	Grid:    []ood.Params{{"k": .25}, {"k": .5}, {"k": .75}, {"k": 256.}, {"k": 1000.}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitViM(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitViM,
	Restore: func(st heads.State) (ood.Scorer, error) {
		var s vim
		var err error
		if s.classes, err = whole(st, "classes", leastLogits); err != nil {
			return nil, err
		}
		if s.alpha, err = positive(st, "alpha"); err != nil {
			return nil, err
		}
		s.residualSpace, err = restoreResidualSpace(st)
		return s, err
	},
}

type vim struct {
	residualSpace
	classes int
	alpha   float64
}

func fitViM(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	ks, err := readShares(grid)
	if err != nil {
		return nil, err
	}
	if !t.HasLogits() {
		return nil, &ood.NeedError{Method: "vim", Need: ood.NeedLogits, Where: "the rows to fit with"}
	}
	if err := heads.CheckFinite("logits", t.Logits); err != nil {
		return nil, err
	}
	spaces, reach, err := fitResidualSpaces(ctx, t, ks, "vim")
	if err != nil {
		return nil, err
	}
	var largest float64
	for i := range t.Logits.Rows {
		largest += float64(slices.Max(row(t.Logits, i))) / float64(t.Logits.Rows)
	}
	if largest <= 0 {
		return nil, fmt.Errorf("the largest logit is %v on average, and must be positive to match a residual with it: are these log-probabilities?", largest)
	}
	scorers := make([]ood.Scorer, len(grid))
	for i, s := range spaces {
		var left float64
		err := s.norms(ctx, t.Features, func(_ int, norm float64) { left += norm / float64(t.Features.Rows) })
		if err != nil {
			return nil, err
		}
		if !(left > float64(len(s.origin))/(1<<24)*reach) {
			return nil, fmt.Errorf("parameter %q: %v principal components hold all of the training features: choose fewer", "k", len(s.origin)-s.basis.Cols)
		}
		scorers[i] = vim{s, t.Logits.Cols, largest / left}
	}
	return scorers, nil
}

// Score implements ood.Scorer.
func (s vim) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkWidth(b.Features, len(s.origin), "features"); err != nil {
		return nil, err
	}
	if err := checkWidth(b.Logits, s.classes, "logits"); err != nil {
		return nil, err
	}
	if b.Logits.Rows != b.Features.Rows {
		return nil, fmt.Errorf("%d rows of features but %d of logits", b.Features.Rows, b.Logits.Rows)
	}
	dst = scores(dst, b.Features.Rows)
	err := s.norms(ctx, b.Features, func(i int, norm float64) {
		z := newSoftmax(row(b.Logits, i), 1)
		dst[i] = s.alpha*norm - (z.max + math.Log1p(z.excess))
	})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// State implements heads.Stater.
func (s vim) State() heads.State {
	return s.state(map[string]any{"classes": float64(s.classes), "alpha": s.alpha})
}
