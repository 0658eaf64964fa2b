package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/ood"
)

// Residual scores with what the principal space of the features leaves over.
var Residual = ood.Method{
	Name: "residual",
	Doc: "Norm of what remains of the features outside the k principal components of the training features, both seen from " +
		"the point −W⁺b where the last layer's logits are nearest 0. k below 1 is a share of the features, and k stops short of all.",
	Ref:    "Wang et al. 2022, arXiv:2203.10807, eq. 3",
	Needs:  ood.NeedFeatures | ood.NeedWeights,
	Memory: squares(eigenSquares),
	Params: []ood.Param{ood.Share("k", .5).Above(0).Over(.25, .5, .75, 512, 1000)},
	Fit: func(ctx context.Context, t ood.Training, p ood.Values) (ood.Fitted, error) {
		seen, err := seenFromOrigin(ctx, t)
		if err != nil {
			return nil, err
		}
		return &residual{seen.leftOver(p)}, nil
	},
	New: func() ood.Fitted { return &residual{} },
}

type residual struct{ residualSpace }

// Score implements ood.Fitted.
func (s *residual) Score(_ context.Context, dst []float64, b ood.Batch) error {
	s.norms(dst, b.Features)
	return nil
}
