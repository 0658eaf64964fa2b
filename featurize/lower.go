package featurize

import (
	"fmt"
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// load reads a model and replaces some operators of the classical domain. See lower.
func load(path string) (*onnx.Graph, error) {
	g, err := onnx.Load(path)
	if err != nil {
		return nil, err
	}
	return lower(g)
}

// lowerings maps classical operators to functions that return replacements for a node. The
// names of the new tensors start with name. If a function returns nil, the node is kept.
var lowerings = map[string]func(n *pb.NodeProto, name string) []*pb.NodeProto{
	"LinearClassifier": lowerClassifier, "LinearRegressor": lowerRegressor, "TreeEnsembleClassifier": lowerTrees, "SVMClassifier": lowerSVM,
}

// lower replaces nodes of the classical domain as lowerings describes. Linear models
// become standard operators, because only layers of standard operators can be found, read
// and differentiated. lower changes g.Model.
func lower(g *onnx.Graph) (*onnx.Graph, error) {
	body := g.Model.GetGraph()
	var nodes []*pb.NodeProto
	found := false
	for i, n := range body.GetNode() {
		name := fmt.Sprintf("attach/linear/%d", i)
		var replacement []*pb.NodeProto
		found = found || n.GetDomain() == mlDomain
		if n.GetDomain() == mlDomain && len(n.GetInput()) > 0 && len(n.GetOutput()) > 0 {
			if replace := lowerings[n.GetOpType()]; replace != nil {
				replacement = replace(n, name)
			}
		}
		if replacement == nil {
			replacement = []*pb.NodeProto{n}
		}
		nodes = append(nodes, replacement...)
	}
	if !found {
		return g, nil
	}
	body.Node = nodes
	if g.Opset() == 0 {
		// XGBoost's converter declares no standard operator set, but the added nodes need
		// one.
		g.Model.OpsetImport = append(g.Model.OpsetImport, &pb.OperatorSetIdProto{Domain: new(""), Version: new(int64(13))})
	}
	return onnx.Index(g.Model)
}

// gemm returns nodes that compute scores = xWᵀ + b from the first input of n.
func gemm(n *pb.NodeProto, name, out string, w, b []float32) []*pb.NodeProto {
	constant := func(out string, v []float32, dims ...int64) *pb.NodeProto {
		return node("Constant", nil, out, onnx.Attr("value", onnx.Tensor(v, dims...)))
	}
	classes := int64(len(b))
	return []*pb.NodeProto{
		constant(name+"/weight", w, classes, int64(len(w))/classes), constant(name+"/bias", b, classes),
		node("Cast", n.GetInput()[:1], name+lowerInputSuffix, onnx.Attr("to", pb.TensorProto_FLOAT)),
		{
			OpType: new("Gemm"), Name: n.Name, Input: []string{name + lowerInputSuffix, name + "/weight", name + "/bias"},
			Output: []string{out}, Attribute: []*pb.AttributeProto{onnx.Attr("transB", 1)},
		},
	}
}

// lowerInputSuffix is the suffix of the float32 input of a layer that replaces a classical node.
const lowerInputSuffix = "/attach/float32"

// coefficients returns W and b of a linear model with the given number of scores. W is nil
// if the sizes do not match.
func coefficients(n *pb.NodeProto, scores int) (w, b []float32) {
	w, b = onnx.Attribute(n, "coefficients").GetFloats(), onnx.Attribute(n, "intercepts").GetFloats()
	if scores < 1 || len(w) == 0 || len(w)%scores != 0 || b != nil && len(b) != scores {
		return nil, nil
	}
	if b == nil {
		b = make([]float32, scores)
	}
	return w, b
}

// postTransform returns the operation that a model of the classical domain applies to its
// scores.
func postTransform(n *pb.NodeProto) string { return onnx.AttributeString(n, "post_transform", "NONE") }

// lowerClassifier returns nodes that compute the scores and the probabilities of a linear
// classifier. The original node is kept, because it computes the labels.
func lowerClassifier(n *pb.NodeProto, name string) []*pb.NodeProto {
	w, b := coefficients(n, len(classLabels(n)))
	if len(n.GetOutput()) != 2 || len(b) < 2 {
		return nil
	}
	op, ok := map[string]string{"NONE": "Identity", "LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}[postTransform(n)]
	if !ok {
		return nil
	}
	if op == "Sigmoid" && haveOppositeScores(w, b) {
		// For scores −z and z, the sigmoid σ(z) is the second component of softmax(−z/2,
		// z/2).
		op, w, b = "Softmax", scaled(w, .5), scaled(b, .5)
	}
	return append(gemm(n, name, name, w, b), node(op, []string{name}, n.GetOutput()[1]), renameScores(n, name, n.GetAttribute()))
}

// haveOppositeScores reports whether the scores of two classes are the negatives of each other.
func haveOppositeScores(w, b []float32) bool {
	if len(b) != 2 || b[0] != -b[1] {
		return false
	}
	for i, v := range w[:len(w)/2] {
		if v != -w[len(w)/2+i] {
			return false
		}
	}
	return true
}

// scaled returns a copy of v in which each number is multiplied by factor.
func scaled(v []float32, factor float32) []float32 {
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = x * factor
	}
	return out
}

// ownScoresSuffix is appended to the name of the scores output of a classifier node whose
// scores lower replaces. For a linear classifier, the replacement takes the old name, and
// no node reads the original scores. For other classifiers, the node that replaces the
// scores reads them.
const ownScoresSuffix = "/attach/unread"

// renameScores returns a copy of a classifier node with the given attributes. The scores
// of the copy get the suffix ownScoresSuffix.
func renameScores(n *pb.NodeProto, name string, attrs []*pb.AttributeProto) *pb.NodeProto {
	return &pb.NodeProto{
		OpType: n.OpType, Domain: n.Domain, Name: new(name), Attribute: attrs,
		Input: n.GetInput(), Output: []string{n.GetOutput()[0], name + ownScoresSuffix},
	}
}

// lowerRegressor returns nodes that compute the predictions of a linear regressor.
func lowerRegressor(n *pb.NodeProto, name string) []*pb.NodeProto {
	w, b := coefficients(n, int(onnx.AttributeInt(n, "targets", 1)))
	if w == nil || postTransform(n) != "NONE" {
		return nil
	}
	return gemm(n, name, n.GetOutput()[0], w, b)
}

// lowerTrees moves the softmax of a tree classifier with three or more classes to a
// separate node, so that the scores before it can be read as logits.
func lowerTrees(n *pb.NodeProto, name string) []*pb.NodeProto {
	if len(n.GetOutput()) != 2 || len(classLabels(n)) < 3 || postTransform(n) != "SOFTMAX" {
		return nil
	}
	attrs := slices.Clone(n.GetAttribute())
	for i, a := range attrs {
		if a.GetName() == "post_transform" {
			attrs[i] = onnx.Attr("post_transform", "NONE")
		}
	}
	scores := renameScores(n, name, attrs)
	return []*pb.NodeProto{scores, node("Softmax", scores.GetOutput()[1:], n.GetOutput()[1])}
}

// lowerSVM negates the scores of a support vector classifier with two classes and no
// probabilities. The reason is that ONNX Runtime gives the larger score to the class that
// it does not predict.
func lowerSVM(n *pb.NodeProto, name string) []*pb.NodeProto {
	if len(n.GetOutput()) != 2 || len(classLabels(n)) != 2 || len(onnx.Attribute(n, "vectors_per_class").GetInts()) != 2 ||
		len(onnx.Attribute(n, "prob_a").GetFloats()) > 0 || postTransform(n) != "NONE" {
		return nil
	}
	scores := renameScores(n, name, n.GetAttribute())
	return []*pb.NodeProto{scores, node("Neg", scores.GetOutput()[1:], n.GetOutput()[1])}
}
