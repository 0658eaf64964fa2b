package trees

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// Graph writes a graph node that adds up the values of the leaves that each row of x reaches, in
// float32. The result is n×columns: a tree adds to the column that columnOf gives. values holds
// the values of the leaves, tree by tree.
func (t Trees) Graph(x graph.Tensor, values []float64, columnOf func(tree int) int, columns int) (graph.Tensor, error) {
	const bytesPerNode = 32 // as TreeEnsembleRegressor stores a node
	nodes := 0
	all := make([]graph.Tree, len(t))
	for i, tree := range t {
		leaves := values[:tree.Leaves]
		values = values[tree.Leaves:]
		all[i] = graph.Tree{Feature: tree.Feature, Threshold: tree.Threshold, Left: tree.Left, Values: leaves, Column: columnOf(i)}
		nodes += len(tree.Feature)
	}
	if size := bytesPerNode * nodes; size > graph.MostBank {
		return graph.Tensor{}, graph.Refuse("its trees are %d MB, and a graph holds %d MB at most: fit it with fewer trees", size>>20, graph.MostBank>>20)
	}
	return x.Trees(all, columns), nil
}

// LeafValues writes graph nodes that return the value of the leaf that each row of x reaches in
// each tree, n×trees, in float64. values holds the values of the leaves, tree by tree.
func (t Trees) LeafValues(x graph.Tensor, values []float64) (graph.Tensor, error) {
	numbers := make([]float64, len(values)) // exact in float32, because MostBank allows fewer than 2²⁴ leaves
	for i := range numbers {
		numbers[i] = float64(i)
	}
	leaves, err := t.Graph(x, numbers, func(tree int) int { return tree }, len(t))
	if err != nil {
		return leaves, err
	}
	return leaves.To(pb.TensorProto_INT32).Lookup(values), nil
}

// maxMembers is the largest number of training targets that a graph sorts for a row.
const maxMembers = 1 << 13

// QuantilesGraph writes the computation of Quantiles as graph nodes. The result is n×levels
// for the n rows of x.
func (f *Forest) QuantilesGraph(x graph.Tensor, levels []float64) (graph.Tensor, error) {
	// For each leaf, positions holds the distinct members and fractions holds the fraction of
	// each.
	var positions, fractions [][]float64
	firstEntries, members, largestLeaf := make([]float64, len(f.Sizes)), f.Members, 0
	for _, size := range f.Sizes {
		var distinct, fraction []float64
		for _, m := range members[:size] {
			if last := len(distinct) - 1; last >= 0 && distinct[last] == float64(m) {
				fraction[last] += 1 / float64(size)
				continue
			}
			distinct, fraction = append(distinct, float64(m)), append(fraction, 1/float64(size))
		}
		positions, fractions = append(positions, distinct), append(fractions, fraction)
		members, largestLeaf = members[size:], max(largestLeaf, len(distinct))
	}
	trees := len(f.Trees)
	k := trees * largestLeaf
	if k > maxMembers || 16*len(firstEntries)*largestLeaf > graph.MostBank {
		return graph.Tensor{}, graph.Refuse("its %d trees have leaves of up to %d training targets, which are too many to sort in a graph: fit it with fewer trees and no max_depth, or fit gradient-boosting or sqr", trees, largestLeaf)
	}
	var position, fraction []float64 // leaves×largestLeaf; position is padded with the position after the last value, fraction with 0
	for l := range firstEntries {
		firstEntries[l] = float64(l * largestLeaf)
		missing := largestLeaf - len(positions[l])
		position = append(append(position, positions[l]...), slices.Repeat([]float64{float64(len(f.Values))}, missing)...)
		fraction = append(append(fraction, fractions[l]...), make([]float64, missing)...)
	}
	first, err := f.Trees.LeafValues(x, firstEntries)
	if err != nil {
		return first, err
	}
	offsets, requiredWeights := make([]float64, largestLeaf), make([]float64, len(levels))
	for i := range offsets {
		offsets[i] = float64(i)
	}
	for l, tau := range levels {
		requiredWeights[l] = min(requiredWeight(tau, trees), float64(trees)*(1-1e-9))
	}
	entries := first.Reshape(-1, int64(trees), 1).Add(offsets).Reshape(-1, int64(k)).To(pb.TensorProto_INT64)
	sorted, order := entries.Lookup(position).Smallest(k)
	row := x.RowNumbers().Mul(float64(k))
	weight := order.Add(row).Lookup(entries.Lookup(fraction).Reshape(-1))
	sums := weight.CumSum().Add(weight)
	less := sums.Reshape(-1, 1, int64(k)).Less(sums.Constant(requiredWeights, len(requiredWeights), 1)).Count(len(requiredWeights)).To(pb.TensorProto_INT64)
	return less.Add(row).Lookup(sorted.Reshape(-1)).To(pb.TensorProto_INT64).Lookup(f.Values), nil
}
