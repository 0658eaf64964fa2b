package baselines

import (
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/internal/trees"
)

// forest is the quantile forest of one target.
type forest struct{ *trees.Forest }

// State implements rows.Stater: the trees, the distinct training targets in
// increasing order ("values"), the number of members of every leaf of all trees
// ("sizes"), and the members, as positions in values.
func (f forest) State() rows.State {
	s := rows.State{Arrays: map[string]rows.Array{}}
	var all []*trees.Tree
	var sizes, members []int64
	for k := range f.Trees {
		b := &f.Trees[k]
		all = append(all, &b.Tree)
		for l := range b.Leaves {
			sizes = append(sizes, int64(b.Start[l+1]-b.Start[l]))
		}
		members = appendInt64s(members, b.Members)
	}
	packTrees(s.Arrays, "", all)
	s.Arrays["values"] = vectorArray(f.Values)
	s.Arrays["sizes"] = vectorArray(sizes)
	s.Arrays["members"] = vectorArray(members)
	return s
}

// Restore implements rows.Coder.
func (f *forest) Restore(s rows.State) error {
	all, err := unpackTrees(s, "", math.MaxInt32)
	if err != nil {
		return err
	}
	values, err := vectorOf[float32](s, "values")
	if err != nil {
		return err
	}
	sizes, err := vectorOf[int64](s, "sizes")
	if err != nil {
		return err
	}
	members, err := int32sOf(s, "members")
	if err != nil {
		return err
	}
	ends, err := cumulate(sizes, len(members))
	if err != nil {
		return fmt.Errorf("array %q: %w", "sizes", err)
	}
	bagged := make([]trees.Bagged, len(all))
	first := 0
	for k, tree := range all {
		if len(ends) < tree.Leaves {
			return fmt.Errorf("array %q has too few leaves", "sizes")
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
		return fmt.Errorf("array %q has %d leaves too many", "sizes", len(ends))
	}
	f.Forest, err = trees.NewForest(math.MaxInt32, values, bagged)
	return err
}
