package baselines

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// fused is a fitted fusion.
type fused struct {
	combine Combination
	parts   []fusedPart
}

type fusedPart struct {
	name   string
	weight float64 // of all parts they add up to 1
	ood.Scorer
	surprise
}

// newFused is bound to a network where one of the parts is.
func newFused(c Combination, parts []fusedPart) ood.Scorer {
	s := fused{c, parts}
	for _, p := range parts {
		if _, ok := p.Scorer.(ood.NetworkBound); ok {
			return boundFused{s}
		}
	}
	return s
}

// Score implements ood.Scorer.
func (s fused) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	all, err := s.ScoreGrid(ctx, []ood.Scorer{s}, b)
	if err != nil {
		return nil, err
	}
	if dst == nil {
		return all[0], nil
	}
	copy(scores(dst, b.Len()), all[0])
	return dst, nil
}

// ScoreGrid implements ood.GridScorer: all combinations are of the same
// p-values.
func (s fused) ScoreGrid(ctx context.Context, grid []ood.Scorer, b ood.Batch) ([][]float64, error) {
	n := b.Len()
	surprises := make([][]float64, len(s.parts)) // by component, −log p of the rows
	for i, p := range s.parts {
		var err error
		if surprises[i], err = p.Score(ctx, nil, b); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		if len(surprises[i]) != n {
			return nil, fmt.Errorf("%s: %d scores of %d rows: features, logits, layers and inputs are not of as many rows", p.name, len(surprises[i]), n)
		}
		for r, v := range surprises[i] {
			surprises[i][r] = p.of(v)
		}
	}
	dst := make([][]float64, len(grid))
	row := make([]float64, len(s.parts))
	for g, other := range grid {
		dst[g] = make([]float64, n)
		for r := range n {
			for i := range row {
				row[i] = surprises[i][r]
			}
			dst[g][r] = other.(interface{ combined([]float64) float64 }).combined(row)
		}
	}
	return dst, nil
}

// combined fuses −log p of the components.
func (s fused) combined(surprises []float64) float64 {
	var sum float64
	if s.combine == Fisher {
		for i, v := range surprises {
			sum += s.parts[i].weight * v
		}
		return 2 * float64(len(surprises)) * sum
	}
	largest := slices.Max(surprises) // NaN if one of them is
	for i, v := range surprises {
		sum += s.parts[i].weight * math.Exp(v-largest)
	}
	return largest + math.Log(sum)
}

// Variant implements ood.Variant: what stands in for a component.
func (s fused) Variant() string {
	for _, p := range s.parts {
		if v := ood.VariantOf(p.Scorer); v != "" {
			return v
		}
	}
	return ""
}

// boundFused has components that run the network.
type boundFused struct{ fused }

// Bind implements ood.NetworkBound.
func (s boundFused) Bind(n ood.Network) ood.Scorer {
	s.parts = slices.Clone(s.parts)
	for i, p := range s.parts {
		if bound, ok := p.Scorer.(ood.NetworkBound); ok {
			s.parts[i].Scorer = bound.Bind(n)
		}
	}
	return s
}

// Names of what is stored: a component's own are its name, a dot and what it
// calls them, and its calibration scores are fusedScores and its name.
const fusedScores = "calibration_"

// State implements heads.Stater.
func (s fused) State() heads.State {
	st := heads.State{Params: map[string]any{}, Arrays: map[string]heads.Array{}}
	names := make([]string, len(s.parts))
	for i, p := range s.parts {
		names[i] = p.name
		nest(st, p.name, p.Scorer.(heads.Stater).State())
		st.Arrays[fusedScores+p.name] = heads.Vector(p.Scores)
	}
	if weights := s.weights(); !slices.Equal(weights, equalWeights(len(weights))) {
		st.Arrays["weights"] = heads.Vector(weights)
	}
	st.Params["combine"], st.Params["components"] = string(s.combine), strings.Join(names, ",")
	return st
}

func (s fused) weights() []float64 {
	weights := make([]float64, len(s.parts))
	for i, p := range s.parts {
		weights[i] = p.weight
	}
	return weights
}

// restoreWeights reads the weights of n components.
func restoreWeights(st heads.State, n int) ([]float64, error) {
	weights, err := st.Float64s("weights")
	if err != nil {
		return nil, err
	}
	var sum float64
	for _, w := range weights {
		sum += w
		if !(w > 0) {
			sum = math.NaN()
		}
	}
	if len(weights) != n || !(math.Abs(sum-1) <= 1e-9) {
		return nil, fmt.Errorf("array %q must hold %d positive numbers that add up to 1, not %v", "weights", n, weights)
	}
	return weights, nil
}

func (f fusion) restore(st heads.State) (ood.Scorer, error) {
	combine, err := st.Text("combine")
	if err != nil {
		return nil, err
	}
	if c := Combination(combine); c != Fisher && c != HarmonicMean {
		return nil, fmt.Errorf("parameter %q must be %s or %s, not %q", "combine", Fisher, HarmonicMean, combine)
	}
	listed, err := st.Text("components")
	if err != nil {
		return nil, err
	}
	if want := strings.Join(f.names(), ","); listed != want {
		return nil, fmt.Errorf("it fuses %q, and %q is of %q: fit anew", listed, f.name, want)
	}
	weights := equalWeights(len(f.components))
	if _, ok := st.Arrays["weights"]; ok || !f.equal() {
		if weights, err = restoreWeights(st, len(weights)); err != nil {
			return nil, err
		}
	}
	known := map[string]bool{"combine": true, "components": true, "weights": true}
	parts := make([]fusedPart, len(f.components))
	for i, m := range f.components {
		own := nested(st, m.Name)
		for name := range own.Params {
			known[m.Name+"."+name] = true
		}
		for name := range own.Arrays {
			known[m.Name+"."+name] = true
		}
		s, err := m.Restore(own)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		known[fusedScores+m.Name] = true
		c, err := st.Float64s(fusedScores + m.Name)
		if err != nil {
			return nil, err
		}
		if len(c) == 0 || slices.ContainsFunc(c, math.IsNaN) || !slices.IsSorted(c) {
			return nil, fmt.Errorf("array %q must hold increasing scores, at least one", fusedScores+m.Name)
		}
		parts[i] = fusedPart{m.Name, weights[i], s, newSurprise(calibrate.Conformal{Scores: c})}
	}
	for _, name := range slices.Sorted(maps.Keys(st.Params)) {
		if !known[name] {
			return nil, fmt.Errorf("parameter %q belongs to none of %s", name, listed)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(st.Arrays)) {
		if !known[name] {
			return nil, fmt.Errorf("array %q belongs to none of %s", name, listed)
		}
	}
	return newFused(Combination(combine), parts), nil
}
