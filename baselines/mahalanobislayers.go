package baselines

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/gaussian"
	"github.com/attach-uncertainty/attach/ood"
)

// MahalanobisLayers looks at the network before its last layer: inputs of
// another kind (other strokes, colours, textures) stand out there, even where
// what is left of them in the last features looks familiar.
var MahalanobisLayers = ood.Method{
	Name: "mahalanobis-layers",
	Doc: "The mean over earlier layers of the Mahalanobis distance to the nearest class mean, each layer's divided by what it is on " +
		"average on the training rows. Within a layer, one covariance serves all classes; shrinkage mixes that share of a multiple of the identity into it. Classes are " +
		"the labels where there are any, else the largest logit; of a regressor all rows are of one. It sees another kind of input (texture, colour, contrast) " +
		"better than new classes of the same kind, which the last layer tells better: fused-layers has both.",
	Ref: "Lee et al. 2018, arXiv:1807.03888, eq. 2 and the feature ensemble of section 2.2, with layers weighed alike in place of a regression on " +
		"out-of-domain rows",
	Needs:   ood.NeedLayers,
	Default: ood.Params{"shrinkage": coupledShrinkage},
	Grid:    []ood.Params{{"shrinkage": coupledShrinkage}, {"shrinkage": .01}, {"shrinkage": .1}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitMahalanobisLayers(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitMahalanobisLayers,
	Restore: restoreMahalanobisLayers,
}

// mahalanobisLayers is one Gaussian per class for every layer.
type mahalanobisLayers struct {
	layers []gaussian.Classes
	scales []float64 // mean distance of the training rows, by layer
}

func fitMahalanobisLayers(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	shrinkages, err := readShrinkages(grid, coupledShrinkage)
	if err != nil {
		return nil, err
	}
	if !t.HasLayers() {
		return nil, &ood.NeedError{Method: "mahalanobis-layers", Need: ood.NeedLayers, Where: "the rows to fit with"}
	}
	if err := checkLayers(t.Layers); err != nil {
		return nil, err
	}
	fitted := make([]mahalanobisLayers, len(grid))
	for i, layer := range t.Layers {
		all, err := cloud{layer: i, one: true}.fit(ctx, t, shrinkages)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		for g, c := range all {
			distances := make([]float64, layer.Rows)
			if err := c.Nearest(ctx, distances, layer); err != nil {
				return nil, err
			}
			var mean float64
			for _, d := range rootsOf(distances) {
				mean += d / float64(layer.Rows)
			}
			// A single row is its class's mean.
			if mean == 0 {
				return nil, fmt.Errorf("layer %d: every row is its class's mean: %w", i, gaussian.ErrNoVariance)
			}
			fitted[g].layers, fitted[g].scales = append(fitted[g].layers, c), append(fitted[g].scales, mean)
		}
		if t.Progress != nil {
			t.Progress(float64(i+1) / float64(len(t.Layers)))
		}
	}
	scorers := make([]ood.Scorer, len(grid))
	for g, s := range fitted {
		scorers[g] = s
	}
	return scorers, nil
}

// Score implements ood.Scorer.
func (s mahalanobisLayers) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if !b.HasLayers() {
		return nil, errors.New("the rows to score carry no earlier layers")
	}
	if len(b.Layers) != len(s.layers) {
		return nil, fmt.Errorf("the rows to score carry %d earlier layers, and the method was fitted with %d", len(b.Layers), len(s.layers))
	}
	dst = scores(dst, b.Layers[0].Rows)
	clear(dst)
	distances := make([]float64, len(dst))
	for i, c := range s.layers {
		if err := checkWidth(b.Layers[i], len(c.Mean), fmt.Sprintf("columns in layer %d", i)); err != nil {
			return nil, err
		}
		if b.Layers[i].Rows != len(dst) {
			return nil, fmt.Errorf("%d rows in layer 0 but %d in layer %d", len(dst), b.Layers[i].Rows, i)
		}
		share := 1 / (s.scales[i] * float64(len(s.layers)))
		if err := c.Nearest(ctx, distances, b.Layers[i]); err != nil {
			return nil, err
		}
		for r, d := range rootsOf(distances) {
			dst[r] += share * d
		}
	}
	return dst, nil
}

// State implements heads.Stater.
func (s mahalanobisLayers) State() heads.State {
	st := heads.State{Params: map[string]any{"layers": float64(len(s.layers))}, Arrays: map[string]heads.Array{"scales": heads.Vector(s.scales)}}
	for i, m := range s.layers {
		nest(st, layerPrefix(i), mahalanobis{m}.State())
	}
	return st
}

func layerPrefix(i int) string { return fmt.Sprintf("layer%d", i) }

func restoreMahalanobisLayers(st heads.State) (ood.Scorer, error) {
	var s mahalanobisLayers
	n, err := whole(st, "layers", 1)
	if err != nil {
		return nil, err
	}
	if s.scales, err = st.Float64s("scales"); err != nil {
		return nil, err
	}
	if len(s.scales) != n {
		return nil, fmt.Errorf("array %q has %d numbers for %d layers", "scales", len(s.scales), n)
	}
	for i, scale := range s.scales {
		if !(scale > 0) || math.IsInf(scale, 1) {
			return nil, fmt.Errorf("array %q must hold positive numbers, not %v", "scales", scale)
		}
		m, err := restoreClasses(nested(st, layerPrefix(i)))
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		s.layers = append(s.layers, m)
	}
	return s, nil
}
