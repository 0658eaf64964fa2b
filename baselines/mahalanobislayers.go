package baselines

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
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
	Needs: ood.NeedLayers,
	Memory: func(t ood.Training, _ ood.Params) float64 {
		var widest, stored float64
		for _, l := range t.Layers {
			widest, stored = max(widest, square(l.Cols)), stored+square(l.Cols)
		}
		return eigenSquares*widest + stored
	},
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
	layers []mahalanobis
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
	if t.Regression || len(t.Labels) == 0 && !t.HasLogits() {
		t.Labels = make([]int, t.Layers[0].Rows)
	}
	fitted := make([]mahalanobisLayers, len(grid))
	if err := checkLayers(t.Layers); err != nil {
		return nil, err
	}
	for i, layer := range t.Layers {
		t.Features = layer
		all, _, err := fitClassMeans(ctx, t, shrinkages, "mahalanobis-layers")
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		for g, m := range all {
			var mean float64
			err := m.distances(ctx, layer, func(_ int, distance float64) { mean += distance / float64(layer.Rows) })
			if err != nil {
				return nil, err
			}
			// A single row is its class's mean.
			if mean == 0 {
				return nil, fmt.Errorf("layer %d: every row is its class's mean: %w", i, errNoVariance)
			}
			fitted[g].layers, fitted[g].scales = append(fitted[g].layers, m), append(fitted[g].scales, mean)
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

// distances calls back with the distance of every row to its nearest class.
func (s mahalanobis) distances(ctx context.Context, x blas32.General, found func(i int, distance float64)) error {
	return project(ctx, x, s.mean, s.projection, func(i int, y []float64) { found(i, math.Sqrt(s.nearest(y))) })
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
	for i, m := range s.layers {
		if err := checkWidth(b.Layers[i], len(m.mean), fmt.Sprintf("columns in layer %d", i)); err != nil {
			return nil, err
		}
		if b.Layers[i].Rows != len(dst) {
			return nil, fmt.Errorf("%d rows in layer 0 but %d in layer %d", len(dst), b.Layers[i].Rows, i)
		}
		share := 1 / (s.scales[i] * float64(len(s.layers)))
		err := m.distances(ctx, b.Layers[i], func(r int, distance float64) { dst[r] += share * distance })
		if err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// State implements heads.Stater.
func (s mahalanobisLayers) State() heads.State {
	st := heads.State{Params: map[string]any{"layers": float64(len(s.layers))}, Arrays: map[string]heads.Array{"scales": heads.Vector(s.scales)}}
	for i, m := range s.layers {
		nest(st, layerPrefix(i), m.State())
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
		m, err := restoreMahalanobis(nested(st, layerPrefix(i)))
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		s.layers = append(s.layers, m)
	}
	return s, nil
}
