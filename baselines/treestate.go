package baselines

import (
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/internal/trees"
)

// packedTrees are trees with a state of few arrays.
type packedTrees []*trees.Tree

// State implements rows.Stater.
func (p packedTrees) State() rows.State {
	s := rows.State{Arrays: map[string]rows.Array{}}
	packTrees(s.Arrays, "", p)
	return s
}

// Restore implements rows.Coder.
func (p *packedTrees) Restore(s rows.State) error {
	unpacked, err := unpackTrees(s, "", math.MaxInt32)
	for i := range unpacked {
		*p = append(*p, &unpacked[i])
	}
	return err
}

// packTrees puts trees into arrays whose names begin with prefix: the number
// of nodes per tree, and per node of all trees its column (−1 at a leaf), its
// threshold, and its left child in the tree or the leaf's number.
func packTrees(to map[string]rows.Array, prefix string, all []*trees.Tree) {
	var nodes, feature, left []int64
	var threshold []float32
	for _, t := range all {
		nodes = append(nodes, int64(len(t.Feature)))
		feature, left = appendInt64s(feature, t.Feature), appendInt64s(left, t.Left)
		threshold = append(threshold, t.Threshold...)
	}
	to[prefix+"nodes"] = vectorArray(nodes)
	to[prefix+"feature"] = vectorArray(feature)
	to[prefix+"threshold"] = vectorArray(threshold)
	to[prefix+"left"] = vectorArray(left)
}

func unpackTrees(s rows.State, prefix string, cols int) ([]trees.Tree, error) {
	nodes, err := vectorOf[int64](s, prefix+"nodes")
	if err != nil {
		return nil, err
	}
	feature, err := int32sOf(s, prefix+"feature")
	if err != nil {
		return nil, err
	}
	left, err := int32sOf(s, prefix+"left")
	if err != nil {
		return nil, err
	}
	threshold, err := vectorOf[float32](s, prefix+"threshold")
	if err != nil {
		return nil, err
	}
	ends, err := cumulate(nodes, len(feature))
	if err != nil || len(left) != len(feature) || len(threshold) != len(feature) {
		return nil, fmt.Errorf("the arrays %q of trees disagree about the number of nodes", prefix+"…")
	}
	all := make([]trees.Tree, len(nodes))
	lo := 0
	for k, hi := range ends {
		all[k] = trees.Tree{Feature: feature[lo:hi], Threshold: threshold[lo:hi], Left: left[lo:hi]}
		if err := all[k].Check(cols); err != nil {
			return nil, fmt.Errorf("tree %d of %q: %w", k, prefix+"…", err)
		}
		lo = hi
	}
	return all, nil
}

// cumulate are the ends of consecutive parts of the given sizes, which make
// up total.
func cumulate(sizes []int64, total int) ([]int, error) {
	ends := make([]int, len(sizes))
	sum := int64(0)
	for i, n := range sizes {
		if n < 1 || n > int64(total)-sum {
			return nil, fmt.Errorf("part %d of %d of a whole of %d has size %d", i, len(sizes), total, n)
		}
		sum += n
		ends[i] = int(sum)
	}
	if sum != int64(total) {
		return nil, fmt.Errorf("%d parts make up %d of %d", len(sizes), sum, total)
	}
	return ends, nil
}

func appendInt64s[T int32 | uint32](to []int64, v []T) []int64 {
	for _, x := range v {
		to = append(to, int64(x))
	}
	return to
}

func vectorArray[T float32 | float64 | int64](v []T) rows.Array {
	return rows.Array{Shape: []int{len(v)}, Data: v}
}

// vectorOf is the array called name, of one dimension.
func vectorOf[T float32 | float64 | int64](s rows.State, name string) ([]T, error) {
	a, ok := s.Arrays[name]
	if !ok {
		return nil, fmt.Errorf("array %q is missing", name)
	}
	v, ok := a.Data.([]T)
	if !ok || len(a.Shape) != 1 || a.Shape[0] != len(v) {
		return nil, fmt.Errorf("array %q must be a vector of %T, not %T of shape %v", name, *new(T), a.Data, a.Shape)
	}
	return v, nil
}

func int32sOf(s rows.State, name string) ([]int32, error) {
	v, err := vectorOf[int64](s, name)
	if err != nil {
		return nil, err
	}
	to := make([]int32, len(v))
	for i, x := range v {
		if x < math.MinInt32 || x > math.MaxInt32 {
			return nil, fmt.Errorf("array %q has %d at %d", name, x, i)
		}
		to[i] = int32(x)
	}
	return to, nil
}
