package baselines

import (
	"context"
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/internal/fitting/classes"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/numeric/gaussian"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var mahalanobisLayersMethod = ood.Method{
	Name: "mahalanobis-layers",
	Doc: "Mean over earlier layers of the Mahalanobis distance to the nearest class mean, each relative to its average on the training rows. Use it for inputs " +
		"of another kind, because earlier layers show texture, colour and contrast. Within a layer, all classes share one covariance; shrinkage mixes that " +
		"fraction of a multiple of the identity into it. Classes are the labels if there are any, otherwise the largest logit; for a regressor all rows form " +
		"one class. The last layer detects new classes of the same kind better; fused-layers uses both. unit_norm and exponent are as in mahalanobis, " +
		"separately for each layer.",
	Ref: "Lee et al. 2018, arXiv:1807.03888, eq. 2 and the feature ensemble of section 2.2, with equal weights for layers in place of a regression on " +
		"OOD rows",
	Needs: ood.Needs{Layers: true},
	Memory: func(t ood.Training, _ ood.Params) float64 {
		var widest, stored float64
		for _, l := range t.Layers {
			widest, stored = max(widest, squareBytes(l.Cols)), stored+squareBytes(l.Cols)
		}
		return eigen.Squares*widest + stored
	},
	Params: append(classes.Radial(), classes.Shrinkage(classes.LeastShrinkage, classes.LeastShrinkage, .01, .1)),
	Fit:    fitMahalanobisLayers,
	New:    func() any { return &mahalanobisLayers{} },
}

type mahalanobisLayers struct {
	Layers    []gaussian.Classes `state:"layers,least=1"`
	Scales    []float64          `state:"scales[l],positive"`   // for each layer, the mean distance of the training rows
	Exponents []float64          `state:"exponents[l],least=0"` // for each layer, rows are divided by their norm to this power
}

func (s *mahalanobisLayers) Restored() error {
	if len(s.Scales) != len(s.Layers) {
		return fmt.Errorf("%d scales of %d layers", len(s.Scales), len(s.Layers))
	}
	return nil
}

func fitMahalanobisLayers(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	s := &mahalanobisLayers{}
	for i, layer := range t.Layers {
		cloud, err := classes.Cloud{Layer: i, One: true}.Scaled(ctx, t, p)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		c, err := cloud.Fit(ctx, t, p)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		distances := make([]float64, layer.Rows)
		if err := c.Nearest(ctx, distances, cloud.Rows(t.Batch)); err != nil {
			return nil, err
		}
		var mean float64
		for _, squared := range distances {
			mean += math.Sqrt(squared) / float64(layer.Rows)
		}
		// A single training row, for example, equals its class mean.
		if mean == 0 {
			return nil, fmt.Errorf("layer %d: every row equals its class mean: %w", i, gaussian.ErrNoVariance)
		}
		s.Layers, s.Scales, s.Exponents = append(s.Layers, c), append(s.Scales, mean), append(s.Exponents, cloud.Exponent)
		t.Progress(float64(i+1) / float64(len(t.Layers)))
	}
	return s, nil
}

// cloud selects the layer that Gaussians were fitted to, and how its rows are scaled.
func (s *mahalanobisLayers) cloud(layer int) classes.Cloud {
	return classes.Cloud{Layer: layer, Exponent: s.Exponents[layer]}
}

func (s *mahalanobisLayers) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	clear(dst)
	distances := make([]float64, len(dst))
	for i, c := range s.Layers {
		if err := c.Nearest(ctx, distances, s.cloud(i).Rows(b)); err != nil {
			return err
		}
		for r, squared := range distances {
			dst[r] += math.Sqrt(squared) / (s.Scales[i] * float64(len(s.Layers)))
		}
	}
	return nil
}

func (s *mahalanobisLayers) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	return s.Sum(b).Graph(), nil
}

// Sum implements gaussian.Summed.
func (s *mahalanobisLayers) Sum(b graph.Batch) gaussian.Sum {
	sum := gaussian.Sum{Classes: s.Layers}
	for i, exponent := range s.Exponents {
		var x graph.Tensor
		if exponent == 1 {
			x = b.Layers[i].Normalised()
		} else {
			x = s.cloud(i).Graph(b)
		}
		sum.Rows, sum.Weights = append(sum.Rows, x), append(sum.Weights, 1/(s.Scales[i]*float64(len(s.Layers))))
	}
	return sum
}

// PropagatesNaN implements graph.NaNPropagator: the score is computed from all numbers of a
// row.
func (s *mahalanobisLayers) PropagatesNaN() bool { return true }
