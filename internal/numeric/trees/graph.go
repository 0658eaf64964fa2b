package trees

import (
	"math"
	"math/bits"
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// Graph writes a graph node that adds up the values of the leaves that each row of x reaches, in
// float32. The result is n×columns: a tree adds to the column that columnOf gives. values holds
// the values of the leaves, tree by tree.
func (t Trees) Graph(x graph.Tensor, values []float64, columnOf func(tree int) int, columns int) (graph.Tensor, error) {
	leaves, leaf := make([][]graph.LeafWeight, len(values)), 0
	for i, tree := range t {
		for range tree.Leaves {
			leaves[leaf] = []graph.LeafWeight{{Column: columnOf(i), Value: float32(values[leaf])}}
			leaf++
		}
	}
	return t.graph(x, leaves, columns)
}

// graph is Graph with the weights of each leaf.
func (t Trees) graph(x graph.Tensor, leaves [][]graph.LeafWeight, columns int) (graph.Tensor, error) {
	const bytesPerNode = 32 // as TreeEnsembleRegressor stores a node or a weight
	nodes := 0
	all := make([]graph.Tree, len(t))
	for i, tree := range t {
		all[i] = graph.Tree{Feature: tree.Feature, Threshold: tree.Threshold, Left: tree.Left, Leaves: leaves[:tree.Leaves]}
		leaves = leaves[tree.Leaves:]
		nodes += len(tree.Feature)
		for _, l := range all[i].Leaves {
			nodes += len(l) - 1
		}
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

// leafMember is a distinct training target of a leaf, as an index into Forest.Values, and the
// fraction of the leaf that it makes up.
type leafMember struct {
	value    int
	fraction float64
}

// leafMembers returns the distinct members of each leaf.
func (f *Forest) leafMembers() [][]leafMember {
	all, members := make([][]leafMember, len(f.Sizes)), f.Members
	for l, size := range f.Sizes {
		for i, m := range members[:size] {
			if i == 0 || m != members[i-1] {
				all[l] = append(all[l], leafMember{value: int(m)})
			}
			all[l][len(all[l])-1].fraction += 1 / float64(size)
		}
		members = members[size:]
	}
	return all
}

// QuantilesGraph writes the computation of Quantiles as graph nodes. The result is n×levels
// for the n rows of x.
func (f *Forest) QuantilesGraph(x graph.Tensor, levels []float64) (graph.Tensor, error) {
	trees := len(f.Trees)
	requiredWeights := make([]float64, len(levels))
	for l, tau := range levels {
		requiredWeights[l] = min(requiredWeight(tau, trees), float64(trees)*(1-1e-9))
	}
	if len(f.Values) <= maxDistribution && x.LongLeaves() {
		return f.searchGraph(x, requiredWeights)
	}
	return f.sortGraph(x, requiredWeights)
}

// maxDistribution is the largest number of distinct training targets for which a graph adds up
// the weight of each one for each row. This takes less time than to sort, but more memory.
const maxDistribution = 1 << 14

// searchSteps is the number of steps of a search in a graph. With three, each step reads the cube
// root of the number of values.
const searchSteps = 3

// searchGraph is QuantilesGraph with a search. The trees add up the weight of each value. Each
// step of the search divides the values into equal blocks and finds, for each level, the block
// at which the cumulative weight becomes large enough.
func (f *Forest) searchGraph(x graph.Tensor, requiredWeights []float64) (graph.Tensor, error) {
	width := max(2, int(math.Ceil(math.Cbrt(float64(len(f.Values)))))) // blocks of a step
	values := width * width * width
	// Operators for trees add in float32, whose rounding errors are larger than the smallest
	// difference between a cumulative weight and a required one. So each weight is the sum of a
	// coarse part, a multiple of unit whose sums are exact, and of a small rest.
	unit := math.Ldexp(1, bits.Len(uint(len(f.Trees)))-24)
	leaves := make([][]graph.LeafWeight, len(f.Sizes))
	for l, members := range f.leafMembers() {
		var sum, coarseSum float64
		for _, m := range members {
			sum += m.fraction
			coarse := math.Round(sum/unit)*unit - coarseSum // so that the rests do not add up
			coarseSum += coarse
			for part, v := range []float64{coarse, m.fraction - coarse} {
				if v != 0 {
					leaves[l] = append(leaves[l], graph.LeafWeight{Column: part*values + m.value, Value: float32(v)})
				}
			}
		}
	}
	weights, err := f.Trees.graph(x, leaves, 2*values)
	if err != nil {
		return weights, err
	}
	blocks := int64(values)
	var steps [searchSteps]graph.Tensor // weights of the blocks, both parts, from few large blocks to the values
	for i := range steps {
		blocks /= int64(width)
		weights = weights.Reshape(-1, 2, blocks, int64(width))
		steps[searchSteps-1-i] = weights
		weights = weights.Sum()
	}
	// The product with cumulate adds up both parts, of each block and of all blocks before it.
	// The last block is not compared: it is chosen if no other one is.
	cumulate := make([]float64, 2*width*(width-1))
	for part := range 2 {
		for i := range width {
			for j := i; j < width-1; j++ {
				cumulate[(part*width+i)*(width-1)+j] = 1
			}
		}
	}
	sums := weights.Constant(cumulate, 2*width, width-1)
	levels := int64(len(requiredWeights))
	required := sums.Constant(requiredWeights, len(requiredWeights), 1)
	var at graph.Tensor // block that the last step found, n×levels×1
	blocks = 1
	for i, w := range steps {
		if i == 0 {
			w = w.Reshape(-1, 1, 2*int64(width))
		} else {
			// Row r has the coarse parts of its blocks at 2·blocks·r, and the rests behind them.
			first := x.RowNumbers().Mul(2*float64(blocks)).Reshape(-1, 1, 1)
			parts := at.Add(first).Concat(at.Add(first.Add(float64(blocks))))
			w = parts.Lookup(w.Reshape(-1, int64(width))).Reshape(-1, levels, 2*int64(width))
		}
		cumulative := w.MatMul(sums)
		before := cumulative.Less(required).Double()
		if i < searchSteps-1 {
			required = required.Sub(before.Mul(cumulative).RowMax())
		}
		if step := before.Sum().To(pb.TensorProto_INT64); i == 0 {
			at = step
		} else {
			at = at.Mul(float64(width)).Add(step)
		}
		blocks *= int64(width)
	}
	last := f.Values[len(f.Values)-1]
	padded := append(slices.Clone(f.Values), slices.Repeat([]float32{last}, values-len(f.Values))...)
	return at.Reshape(-1, levels).Lookup(padded), nil
}

// maxMembers is the largest number of training targets that a graph sorts for a row.
const maxMembers = 1 << 13

// sortGraph is QuantilesGraph with a sort of the members of all leaves that a row reaches.
func (f *Forest) sortGraph(x graph.Tensor, requiredWeights []float64) (graph.Tensor, error) {
	leaves, largestLeaf := f.leafMembers(), 0
	for _, members := range leaves {
		largestLeaf = max(largestLeaf, len(members))
	}
	trees := len(f.Trees)
	k := trees * largestLeaf
	if k > maxMembers || 16*len(leaves)*largestLeaf > graph.MostBank {
		return graph.Tensor{}, graph.Refuse("its %d trees have leaves of up to %d training targets, which are too many to sort in a graph: fit it with fewer trees and no max_depth, or fit gradient-boosting or sqr", trees, largestLeaf)
	}
	// Leaves are padded with the position after the last value, and with the fraction 0.
	firstEntries, position, fraction := make([]float64, len(leaves)), make([]float64, len(leaves)*largestLeaf), make([]float64, len(leaves)*largestLeaf)
	for l, members := range leaves {
		firstEntries[l] = float64(l * largestLeaf)
		for i := range largestLeaf {
			m := leafMember{value: len(f.Values)}
			if i < len(members) {
				m = members[i]
			}
			position[l*largestLeaf+i], fraction[l*largestLeaf+i] = float64(m.value), m.fraction
		}
	}
	first, err := f.Trees.LeafValues(x, firstEntries)
	if err != nil {
		return first, err
	}
	offsets := make([]float64, largestLeaf)
	for i := range offsets {
		offsets[i] = float64(i)
	}
	entries := first.Reshape(-1, int64(trees), 1).Add(offsets).Reshape(-1, int64(k)).To(pb.TensorProto_INT64)
	sorted, order := entries.Lookup(position).Smallest(k)
	row := x.RowNumbers().Mul(float64(k))
	weight := order.Add(row).Lookup(entries.Lookup(fraction).Reshape(-1))
	sums := weight.CumSum().Add(weight)
	less := sums.Reshape(-1, 1, int64(k)).Less(sums.Constant(requiredWeights, len(requiredWeights), 1)).Count(len(requiredWeights)).To(pb.TensorProto_INT64)
	return less.Add(row).Lookup(sorted.Reshape(-1)).To(pb.TensorProto_INT64).Lookup(f.Values), nil
}
