package baselines

import (
	"fmt"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/internal/trees"
)

// State implements rows.Stater. "levels" are those fitted, "base" the
// predictions without trees, target by target. Per target t and level l,
// arrays that begin with "target<t>_level<l>_": the trees, and the values of
// the leaves of all trees ("value"), before the learning rate.
func (b *boosting) State() rows.State {
	s := rows.State{
		Params: map[string]any{
			"columns": float64(b.cols), "targets": float64(len(b.models)), "learning_rate": b.models[0][0].LearningRate,
		},
		Arrays: map[string]rows.Array{"levels": rows.Vector(b.levels)},
	}
	var base []float64
	for t, models := range b.models {
		for l, m := range models {
			var all []*trees.Tree
			var values []float64
			for k := range m.Trees {
				all = append(all, &m.Trees[k])
				values = append(values, m.Values[k]...)
			}
			prefix := fmt.Sprintf("target%d_level%d_", t, l)
			packTrees(s.Arrays, prefix, all)
			s.Arrays[prefix+"value"] = vectorArray(values)
			base = append(base, m.Base)
		}
	}
	s.Arrays["base"] = rows.Vector(base)
	return s
}

// RestoreBoosting rebuilds a fit of Boosting from its State.
func RestoreBoosting(s rows.State) (heads.QuantileRegressor, error) {
	b := &boosting{}
	var err error
	if b.cols, err = s.Whole("columns", 1); err != nil {
		return nil, err
	}
	targets, err := s.Whole("targets", 1)
	if err != nil {
		return nil, err
	}
	rate, err := s.Number("learning_rate")
	if err != nil {
		return nil, err
	}
	if b.levels, err = s.Float64s("levels"); err != nil {
		return nil, err
	}
	base, err := s.Float64s("base")
	if err != nil {
		return nil, err
	}
	if len(b.levels) == 0 || len(base)%len(b.levels) != 0 || len(base)/len(b.levels) != targets {
		return nil, fmt.Errorf("array %q has %d entries for %d targets and %d levels", "base", len(base), targets, len(b.levels))
	}
	for l, tau := range b.levels {
		if !(tau > 0 && tau < 1) || l > 0 && tau <= b.levels[l-1] {
			return nil, fmt.Errorf("array %q must increase within (0,1)", "levels")
		}
	}
	if slices.ContainsFunc(append(slices.Clone(base), rate), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		return nil, fmt.Errorf("array %q and the learning rate must be finite", "base")
	}
	for t := range targets {
		var models []*trees.Boosted
		for l := range b.levels {
			m := &trees.Boosted{Base: base[t*len(b.levels)+l], LearningRate: rate}
			if err := restoreBoosted(m, s, fmt.Sprintf("target%d_level%d_", t, l), b.cols); err != nil {
				return nil, err
			}
			models = append(models, m)
		}
		b.models = append(b.models, models)
	}
	return b, nil
}

func restoreBoosted(m *trees.Boosted, s rows.State, prefix string, cols int) error {
	var err error
	if m.Trees, err = unpackTrees(s, prefix, cols); err != nil {
		return err
	}
	values, err := vectorOf[float64](s, prefix+"value")
	if err != nil {
		return err
	}
	for _, tree := range m.Trees {
		if len(values) < tree.Leaves {
			return fmt.Errorf("array %q has too few leaves", prefix+"value")
		}
		m.Values = append(m.Values, values[:tree.Leaves])
		values = values[tree.Leaves:]
	}
	if len(values) > 0 {
		return fmt.Errorf("array %q has %d leaves too many", prefix+"value", len(values))
	}
	return nil
}
