package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/internal/fitting/classes"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/numeric/gaussian"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var mahalanobisMethod = ood.Method{
	Name: "mahalanobis",
	Doc: "Squared Mahalanobis distance to the nearest class mean. Use it if each class forms one cluster of features, and if a flag must be easy to explain. " +
		"All classes share one covariance: that of the training features about their class mean. Classes are the labels if there are any, otherwise the " +
		"largest logit. With shrinkage=0 the pseudo-inverse ignores directions in which no training row varies. With shrinkage above 0, that fraction of a " +
		"multiple of the identity is mixed into the covariance, and these directions count. unit_norm first divides rows by their norm to the power of " +
		"exponent. exponent=1 is Mahalanobis++. exponent=0 selects the value, from 0 to 1.5, that best tells a held-out fifth of the training rows from means " +
		"of two of them.",
	Ref: "Lee et al. 2018, arXiv:1807.03888, eq. 2, on the features alone; shrinkage: Ledoit & Wolf 2004; unit_norm: Mueller & Hein 2025, " +
		"arXiv:2505.18032; exponent: Janiak et al. 2025, arXiv:2510.15202",
	Needs:  ood.Needs{Features: true},
	Memory: squareMatrices(eigen.Squares + 1),
	Params: append(classes.Radial(), classes.Shrinkage(0, 0, .01, .1)),
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
		s, _, err := fitMahalanobis(ctx, t, p)
		return s, err
	},
	New: func() any { return &mahalanobis{} },
}

type mahalanobis struct {
	gaussian.Classes
	Exponent float64 `state:"exponent,least=0"` // rows are divided by their norm to this power
}

func fitMahalanobis(ctx context.Context, t ood.Training, p ood.Params) (*mahalanobis, classes.Cloud, error) {
	c, err := classes.Cloud{Layer: classes.Features}.Scaled(ctx, t, p)
	if err != nil {
		return nil, c, err
	}
	g, err := c.Fit(ctx, t, p)
	return &mahalanobis{g, c.Exponent}, c, err
}

// cloud selects the rows that the Gaussians were fitted to, and how they are scaled.
func (s *mahalanobis) cloud() classes.Cloud {
	return classes.Cloud{Layer: classes.Features, Exponent: s.Exponent}
}

func (s *mahalanobis) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	return s.Nearest(ctx, dst, s.cloud().Rows(b))
}

func (s *mahalanobis) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	return s.NearestGraph(s.cloud().Graph(b)), nil
}
