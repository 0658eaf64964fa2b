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
	Doc: "Squared Mahalanobis distance to the nearest class mean, with one covariance for all classes: that of the training features " +
		"about their class's mean. Classes are the labels where there are any, else the largest logit. The covariance is " +
		"pseudo-inverted, so that directions in which no training row varies do not count; shrinkage above 0 mixes that share of " +
		"a multiple of the identity into it, and then they do. unit_norm divides rows by their norm to the power of exponent first: with an " +
		"exponent of 1 that is Mahalanobis++, and 0 takes the one, from 0 to 1.5, that tells best a fifth of the training rows, held out, from means of two of them.",
	Ref: "Lee et al. 2018, arXiv:1807.03888, eq. 2, on the features alone; shrinkage: Ledoit & Wolf 2004; unit_norm: Mueller & Hein 2025, " +
		"arXiv:2505.18032; exponent: Janiak et al. 2025, arXiv:2510.15202",
	Needs:  ood.Needs{Features: true},
	Memory: squares(eigen.Squares + 1),
	Params: append(classes.Radial(), classes.Shrinkage(0, 0, .01, .1)),
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
		s, _, err := fitMahalanobis(ctx, t, p)
		return s, err
	},
	New: func() any { return &mahalanobis{} },
}

type mahalanobis struct {
	gaussian.Classes
	Exponent float64 `state:"exponent,least=0"` // of the norm that rows are divided by
}

func fitMahalanobis(ctx context.Context, t ood.Training, p ood.Params) (*mahalanobis, classes.Cloud, error) {
	c, err := classes.Cloud{Layer: classes.Features}.Scaled(ctx, t, p)
	if err != nil {
		return nil, c, err
	}
	g, err := c.Fit(ctx, t, p)
	return &mahalanobis{g, c.Exponent}, c, err
}

// cloud are the rows that distances are of.
func (s *mahalanobis) cloud() classes.Cloud {
	return classes.Cloud{Layer: classes.Features, Exponent: s.Exponent}
}

func (s *mahalanobis) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	return s.Nearest(ctx, dst, s.cloud().Rows(b))
}

func (s *mahalanobis) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	return s.NearestGraph(s.cloud().Graph(b)), nil
}
