package baselines

import (
	"fmt"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/internal/trees"
)

// State implements rows.Stater. Per target t, arrays that begin with
// "target<t>_": the trees, the distinct training targets in increasing order
// ("values"), the number of members of every leaf of all trees ("sizes"), and
// the members, as positions in values.
func (f *quantileForest) State() rows.State {
	s := rows.State{
		Params: map[string]any{"columns": float64(f.cols), "targets": float64(len(f.forests))},
		Arrays: map[string]rows.Array{},
	}
	for t, forest := range f.forests {
		var all []*trees.Tree
		var sizes, members []int64
		for k := range forest.Trees {
			b := &forest.Trees[k]
			all = append(all, &b.Tree)
			for l := range b.Leaves {
				sizes = append(sizes, int64(b.Start[l+1]-b.Start[l]))
			}
			members = appendInt64s(members, b.Members)
		}
		prefix := fmt.Sprintf("target%d_", t)
		packTrees(s.Arrays, prefix, all)
		s.Arrays[prefix+"values"] = vectorArray(forest.Values)
		s.Arrays[prefix+"sizes"] = vectorArray(sizes)
		s.Arrays[prefix+"members"] = vectorArray(members)
	}
	return s
}

// RestoreQuantileForest rebuilds a fit of QuantileForest from its State.
func RestoreQuantileForest(s rows.State) (heads.QuantileRegressor, error) {
	f := &quantileForest{}
	var err error
	if f.cols, err = s.Whole("columns", 1); err != nil {
		return nil, err
	}
	targets, err := s.Whole("targets", 1)
	if err != nil {
		return nil, err
	}
	for t := 0; t < targets; t++ {
		forest, err := restoreForest(s, fmt.Sprintf("target%d_", t), f.cols)
		if err != nil {
			return nil, err
		}
		f.forests = append(f.forests, forest)
	}
	return f, nil
}

func restoreForest(s rows.State, prefix string, cols int) (*trees.Forest, error) {
	all, err := unpackTrees(s, prefix, cols)
	if err != nil {
		return nil, err
	}
	values, err := vectorOf[float32](s, prefix+"values")
	if err != nil {
		return nil, err
	}
	sizes, err := vectorOf[int64](s, prefix+"sizes")
	if err != nil {
		return nil, err
	}
	members, err := int32sOf(s, prefix+"members")
	if err != nil {
		return nil, err
	}
	ends, err := cumulate(sizes, len(members))
	if err != nil {
		return nil, fmt.Errorf("array %q: %w", prefix+"sizes", err)
	}
	bagged := make([]trees.Bagged, len(all))
	first := 0
	for k, tree := range all {
		if len(ends) < tree.Leaves {
			return nil, fmt.Errorf("array %q has too few leaves", prefix+"sizes")
		}
		b := trees.Bagged{Tree: tree, Start: []uint32{0}}
		for _, end := range ends[:tree.Leaves] {
			b.Start = append(b.Start, uint32(end-first))
		}
		last := ends[tree.Leaves-1]
		for _, m := range members[first:last] {
			b.Members = append(b.Members, uint32(m))
		}
		bagged[k], first, ends = b, last, ends[tree.Leaves:]
	}
	if len(ends) > 0 {
		return nil, fmt.Errorf("array %q has %d leaves too many", prefix+"sizes", len(ends))
	}
	return trees.NewForest(cols, values, bagged)
}
