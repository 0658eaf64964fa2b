package trees

import (
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// maxLevels limits the depth of trees in a graph, because the graph has nodes for each
// level.
const maxLevels = 100

// Graph writes graph nodes that compute the value of the leaf that each row of x reaches in
// each tree, n×trees. values holds the values of the leaves, tree by tree.
func (t Trees) Graph(x graph.Tensor, values []float64) (graph.Tensor, error) {
	var roots, feature, left []int64
	var threshold []float32
	var nodeValues []float64
	levels := 0
	for _, tree := range t {
		root := len(feature)
		roots = append(roots, int64(root))
		depth := make([]int, len(tree.Feature))
		for i, f := range tree.Feature {
			if f < 0 { // a leaf is its own child, so rows stay there
				feature, threshold, left = append(feature, 0), append(threshold, float32(math.Inf(1))), append(left, int64(root+i))
				nodeValues = append(nodeValues, values[tree.Left[i]])
				levels = max(levels, depth[i])
				continue
			}
			l := tree.Left[i]
			depth[l], depth[l+1] = depth[i]+1, depth[i]+1
			feature, threshold, left = append(feature, int64(f)), append(threshold, tree.Threshold[i]), append(left, int64(root)+int64(l))
			nodeValues = append(nodeValues, 0)
		}
		values = values[tree.Leaves:]
	}
	if levels > maxLevels {
		return graph.Tensor{}, graph.Refuse("its trees have %d levels, and a graph holds %d at most: fit it with a max_depth", levels, maxLevels)
	}
	if size := 28 * len(feature); size > graph.MostBank {
		return graph.Tensor{}, graph.Refuse("its trees are %d MB, and a graph holds %d MB at most: fit it with fewer trees", size>>20, graph.MostBank>>20)
	}
	row := x.RowNumbers()
	node, start, flat := row.Mul(0.).Add(x.Constant(roots)), row.Mul(float64(x.Cols())), x.Reshape(-1)
	features, thresholds, lefts := x.Constant(feature), x.Constant(threshold), x.Constant(left)
	for range levels {
		v := node.Lookup(features).Add(start).Lookup(flat)
		node = node.Lookup(lefts).Add(node.Lookup(thresholds).Less(v).To(pb.TensorProto_INT64))
	}
	return node.Lookup(nodeValues), nil
}

// maxMembers is the largest number of training targets that a graph sorts for a row.
const maxMembers = 1 << 13

// QuantilesGraph writes the computation of Quantiles as graph nodes. The result is n×levels
// for the n rows of x.
func (f *Forest) QuantilesGraph(x graph.Tensor, levels []float64) (graph.Tensor, error) {
	// For each leaf, positions holds the distinct members and fractions holds the fraction of
	// each.
	var positions, fractions [][]float64
	numbers, members, largestLeaf := make([]float64, len(f.Sizes)), f.Members, 0
	for l, size := range f.Sizes {
		numbers[l] = float64(l)
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
	if k > maxMembers || 16*len(numbers)*largestLeaf > graph.MostBank {
		return graph.Tensor{}, graph.Refuse("its %d trees have leaves of up to %d training targets, which are too many to sort in a graph: fit it with fewer trees and no max_depth, or fit gradient-boosting or sqr", trees, largestLeaf)
	}
	var position, fraction []float64 // leaves×largestLeaf; position is padded with the position after the last value, fraction with 0
	for l := range numbers {
		missing := largestLeaf - len(positions[l])
		position = append(append(position, positions[l]...), slices.Repeat([]float64{float64(len(f.Values))}, missing)...)
		fraction = append(append(fraction, fractions[l]...), make([]float64, missing)...)
	}
	leaf, err := f.Trees.Graph(x, numbers)
	if err != nil {
		return leaf, err
	}
	offsets, requiredWeights := make([]float64, largestLeaf), make([]float64, len(levels))
	for i := range offsets {
		offsets[i] = float64(i)
	}
	for l, tau := range levels {
		requiredWeights[l] = min(requiredWeight(tau, trees), float64(trees)*(1-1e-9))
	}
	entries := leaf.Mul(float64(largestLeaf)).Reshape(-1, int64(trees), 1).Add(offsets).Reshape(-1, int64(k)).To(pb.TensorProto_INT64)
	sorted, order := entries.Lookup(position).Smallest(k)
	row := x.RowNumbers().Mul(float64(k))
	weight := order.Add(row).Lookup(entries.Lookup(fraction).Reshape(-1))
	sums := weight.CumSum().Add(weight)
	less := sums.Reshape(-1, 1, int64(k)).Less(sums.Constant(requiredWeights, len(requiredWeights), 1)).Count(len(requiredWeights)).To(pb.TensorProto_INT64)
	return less.Add(row).Lookup(sorted.Reshape(-1)).To(pb.TensorProto_INT64).Lookup(f.Values), nil
}
