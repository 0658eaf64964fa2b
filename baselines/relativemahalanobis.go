package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/internal/fitting/classes"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/numeric/gaussian"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var relativeMahalanobisMethod = ood.Method{
	Name: "relative-mahalanobis",
	Doc: "Squared Mahalanobis distance to the nearest class mean, as in mahalanobis, minus the distance under a single Gaussian fitted to all training " +
		"features. Use it for near OOD inputs, such as new classes of the same kind, because the difference removes the part that all classes share. Classes " +
		"are the labels if there are any, otherwise the largest logit. unit_norm and exponent are as in mahalanobis.",
	Ref:    "Ren et al. 2021, arXiv:2106.09022, eq. 4; unit_norm: Mueller & Hein 2025, arXiv:2505.18032",
	Needs:  ood.Needs{Features: true},
	Memory: squareMatrices(eigen.Squares + 3),
	Params: append(classes.Radial(), classes.Shrinkage(0, 0, .01, .1)),
	Fit:    fitRelativeMahalanobis,
	New:    func() any { return &relativeMahalanobis{} },
}

type relativeMahalanobis struct {
	mahalanobis
	All gaussian.Whitening `state:"all"`
}

func fitRelativeMahalanobis(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	within, cloud, err := fitMahalanobis(ctx, t, p)
	if err != nil {
		return nil, err
	}
	m, err := cloud.Moments(ctx, t)
	if err != nil {
		return nil, err
	}
	all, err := gaussian.NewWhitening(m.Mean(), m.Covariance(), p.Float("shrinkage"))
	return &relativeMahalanobis{*within, all}, err
}

func (s *relativeMahalanobis) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	x := s.cloud().Rows(b)
	if err := s.Nearest(ctx, dst, x); err != nil {
		return err
	}
	all := make([]float64, len(dst))
	if err := s.All.Distances(ctx, all, x); err != nil {
		return err
	}
	for i, d := range all {
		dst[i] -= d
	}
	return nil
}

func (s *relativeMahalanobis) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	x := s.cloud().Graph(b)
	return s.NearestGraph(x).Sub(s.All.DistancesGraph(x)), nil
}
