package graph

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// Tree is a binary tree. Its slices Feature, Threshold and Left have one entry for each node,
// with the root first.
type Tree struct {
	Feature   []int32        // column that a node compares, or −1 at a leaf
	Threshold []float32      // a row goes to the left child if its number is at most Threshold
	Left      []int32        // left child, before the right child; the number of the leaf at a leaf
	Leaves    [][]LeafWeight // what each leaf adds to the result; see Tensor.LongLeaves
}

// LeafWeight is a value that a leaf adds to a column of the result.
type LeafWeight struct {
	Column int
	Value  float32
}

// treesDomain is the domain of the operators for trees.
const treesDomain = "ai.onnx.ml"

// LongLeaves reports whether the graph's operator set for trees allows leaves with other than
// one weight. Version 5 replaced TreeEnsembleRegressor, which allows them, by TreeEnsemble.
func (x Tensor) LongLeaves() bool { return x.b.Import(treesDomain, 1) < 5 }

// Trees adds up the weights of the leaves that each row of x reaches, in float32. The result
// has the given number of columns. x must be float32. One node computes all trees, because
// nodes for each level of the trees would take several times as long.
func (x Tensor) Trees(all []Tree, columns int) Tensor {
	op, attributes := "TreeEnsembleRegressor", ensembleAttributes
	if !x.LongLeaves() {
		op, attributes = "TreeEnsemble", splitAttributes
	}
	attrs := append(attributes(all), onnx.Attr("n_targets", columns))
	return Tensor{x.b, x.b.Append(onnx.Node{Op: op, Domain: treesDomain, Inputs: []string{x.name}, Attrs: attrs})[0], pb.TensorProto_FLOAT, columns}
}

// ensembleAttributes returns the attributes of TreeEnsembleRegressor, which list all nodes and
// refer to them by tree and number.
func ensembleAttributes(all []Tree) []*pb.AttributeProto {
	var tree, node, feature, left, right, leafTree, leafNode, leafColumn []int64
	var threshold, leafValue []float32
	var mode []string
	for t, tr := range all {
		for i, f := range tr.Feature {
			tree, node = append(tree, int64(t)), append(node, int64(i))
			if f < 0 {
				feature, threshold, mode = append(feature, 0), append(threshold, 0), append(mode, "LEAF")
				left, right = append(left, 0), append(right, 0)
				for _, w := range tr.Leaves[tr.Left[i]] {
					leafTree, leafNode = append(leafTree, int64(t)), append(leafNode, int64(i))
					leafColumn, leafValue = append(leafColumn, int64(w.Column)), append(leafValue, w.Value)
				}
				continue
			}
			feature, threshold, mode = append(feature, int64(f)), append(threshold, tr.Threshold[i]), append(mode, "BRANCH_LEQ")
			left, right = append(left, int64(tr.Left[i])), append(right, int64(tr.Left[i]+1))
		}
	}
	return []*pb.AttributeProto{
		onnx.Attr("nodes_treeids", tree), onnx.Attr("nodes_nodeids", node), onnx.Attr("nodes_featureids", feature), onnx.Attr("nodes_values", threshold),
		onnx.Attr("nodes_modes", mode), onnx.Attr("nodes_truenodeids", left), onnx.Attr("nodes_falsenodeids", right), onnx.Attr("target_treeids", leafTree),
		onnx.Attr("target_nodeids", leafNode), onnx.Attr("target_ids", leafColumn), onnx.Attr("target_weights", leafValue),
	}
}

// splitAttributes returns the attributes of TreeEnsemble, which list splits and leaves apart. A
// tree without splits becomes a split with two equal leaves.
func splitAttributes(all []Tree) []*pb.AttributeProto {
	var roots, feature, leafColumn []int64
	var children, isLeaf [2][]int64 // of left and of right children
	var threshold, leafValue []float32
	for _, tr := range all {
		firstLeaf := int64(len(leafColumn))
		for _, l := range tr.Leaves {
			leafColumn, leafValue = append(leafColumn, int64(l[0].Column)), append(leafValue, l[0].Value)
		}
		root := int64(len(feature))
		roots = append(roots, root)
		split := make([]int64, len(tr.Feature)) // number of each split among all splits
		for i, f := range tr.Feature {
			if f >= 0 {
				split[i], root = root, root+1
			}
		}
		if tr.Feature[0] < 0 {
			feature, threshold = append(feature, 0), append(threshold, 0)
			for side := range children {
				children[side], isLeaf[side] = append(children[side], firstLeaf), append(isLeaf[side], 1)
			}
			continue
		}
		for i, f := range tr.Feature {
			if f < 0 {
				continue
			}
			feature, threshold = append(feature, int64(f)), append(threshold, tr.Threshold[i])
			for side := range children {
				child := tr.Left[i] + int32(side)
				if tr.Feature[child] < 0 {
					children[side], isLeaf[side] = append(children[side], firstLeaf+int64(tr.Left[child])), append(isLeaf[side], 1)
				} else {
					children[side], isLeaf[side] = append(children[side], split[child]), append(isLeaf[side], 0)
				}
			}
		}
	}
	return []*pb.AttributeProto{
		onnx.Attr("tree_roots", roots), onnx.Attr("nodes_featureids", feature), onnx.Attr("nodes_splits", onnx.Tensor(threshold)),
		onnx.Attr("nodes_modes", onnx.Tensor(make([]uint8, len(feature)))), // 0: at most the threshold
		onnx.Attr("nodes_truenodeids", children[0]), onnx.Attr("nodes_falsenodeids", children[1]),
		onnx.Attr("nodes_trueleafs", isLeaf[0]), onnx.Attr("nodes_falseleafs", isLeaf[1]),
		onnx.Attr("leaf_targetids", leafColumn), onnx.Attr("leaf_weights", onnx.Tensor(leafValue)),
	}
}
