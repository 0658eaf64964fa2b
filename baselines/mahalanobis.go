package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/internal/classes"
	"github.com/attach-uncertainty/attach/internal/eigen"
	"github.com/attach-uncertainty/attach/internal/gaussian"
	"github.com/attach-uncertainty/attach/internal/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var mahalanobisMethod = ood.Method{
	Name: "mahalanobis",
	Doc: "Squared Mahalanobis distance to the nearest class mean, with one covariance for all classes: that of the training features " +
		"about their class's mean. Classes are the labels where there are any, else the largest logit. The covariance is " +
		"pseudo-inverted, so that directions in which no training row varies do not count; shrinkage above 0 mixes that share of " +
		"a multiple of the identity into it, and then they do.",
	Ref:    "Lee et al. 2018, arXiv:1807.03888, eq. 2, on the features alone; shrinkage: Ledoit & Wolf 2004",
	Needs:  ood.NeedFeatures,
	Memory: squares(eigen.Squares + 1),
	Params: []ood.Param{classes.Shrinkage(0, 0, .01, .1)},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
		c, err := classes.Cloud{Layer: classes.Features}.Fit(ctx, t, p)
		return &mahalanobis{c}, err
	},
	New: func() any { return &mahalanobis{} },
}

type mahalanobis struct{ gaussian.Classes }

// Score implements ood.Detector.
func (s *mahalanobis) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	return s.Nearest(ctx, dst, b.Features)
}

// ScoreGraph implements graph.Detector.
func (s *mahalanobis) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	return s.NearestGraph(b.Features), nil
}
