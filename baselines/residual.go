package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// Residual scores with what the principal space of the features leaves over.
var Residual = ood.Method{
	Name: "residual",
	Doc: "Norm of what remains of the features outside the k principal components of the training features, both seen from " +
		"the point −W⁺b where the last layer's logits are nearest 0. k below 1 is a share of the features, and k stops short of all.",
	Ref:     "Wang et al. 2022, arXiv:2203.10807, eq. 3",
	Needs:   ood.NeedFeatures | ood.NeedWeights,
	Memory:  squares(eigenSquares),
	Default: ood.Params{"k": .5},
	Grid:    []ood.Params{{"k": .25}, {"k": .5}, {"k": .75}, {"k": 512.}, {"k": 1000.}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitResidual(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitResidual,
	Restore: func(st heads.State) (ood.Scorer, error) {
		s, err := restoreResidualSpace(st)
		return residual{s}, err
	},
}

type residual struct{ residualSpace }

func fitResidual(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	ks, err := readShares(grid)
	if err != nil {
		return nil, err
	}
	spaces, _, err := fitResidualSpaces(ctx, t, ks, "residual")
	if err != nil {
		return nil, err
	}
	scorers := make([]ood.Scorer, len(grid))
	for i, s := range spaces {
		scorers[i] = residual{s}
	}
	return scorers, nil
}

// readShares reads k, a count or a share of the features.
func readShares(grid []ood.Params) ([]float64, error) {
	ks := make([]float64, len(grid))
	for i, p := range grid {
		r := p.Reader()
		ks[i] = r.Positive("k", .5)
		if err := r.Err(); err != nil {
			return nil, err
		}
	}
	return ks, nil
}

// Score implements ood.Scorer.
func (s residual) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkWidth(b.Features, len(s.origin), "features"); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	if err := s.norms(ctx, b.Features, func(i int, norm float64) { dst[i] = norm }); err != nil {
		return nil, err
	}
	return dst, nil
}

// State implements heads.Stater.
func (s residual) State() heads.State { return s.state(map[string]any{}) }
