package featurize

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// classical is the domain of the operators that models of scikit-learn, LightGBM and
// XGBoost are exported to.
const classical = "ai.onnx.ml"

// besideName names the feature of a model without a linear layer, in Options.Feature and
// Info.Feature. This feature consists of the inputs of the trees or similar operators (or
// else the model's own inputs) and the model's predictions. See Feature.Of.
const besideName = "attach/inputs-and-outputs"

// estimators are the operators of the classical domain that predict. Other operators of
// this domain only prepare data.
var estimators = []string{
	"TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor", "SVMClassifier", "SVMRegressor", "LinearClassifier", "LinearRegressor",
}

// answering reports whether a node is an estimator or replaces an estimator.
func answering(n *pb.NodeProto) bool {
	return strings.HasSuffix(n.GetOutput()[0], lowerInput) || slices.Contains(estimators, n.GetOpType())
}

// inputsAndOutputs returns the feature of a model without a linear layer: the inputs of its
// estimators and its predictions. The view is empty if the model has no suitable numeric
// inputs.
func (s source) inputsAndOutputs(w *walk) view {
	reads := s.firstRead(w.answers)
	if reads == nil {
		reads = s.tableInputs(w.answers)
	}
	if reads == nil {
		return view{}
	}
	return view{tensor: besideName, beside: append(reads, w.answers)}
}

// firstRead returns the inputs of the estimators before a tensor. Estimators that read
// predictions of other estimators are skipped. If there are several such inputs, firstRead
// returns the tensors that the inputs were picked from.
func (s source) firstRead(tensor string) []string {
	var reads []string
	answers := make(map[string]bool)
	for n := range s.classicalBefore(tensor) {
		if !answering(n) {
			continue
		}
		in := n.GetInput()[0]
		for t := range ancestors(s.g, in) {
			if answers[t] {
				in = ""
			}
		}
		if in != "" && !slices.Contains(reads, in) {
			reads = append(reads, in)
		}
		for _, t := range n.GetOutput() {
			answers[t] = true
		}
	}
	if len(reads) < 2 {
		return reads
	}
	var whole []string
	for _, t := range reads {
		if from := s.pickedFrom(t); !slices.Contains(whole, from) {
			whole = append(whole, from)
		}
	}
	return whole
}

// pickedFrom returns the tensor that the columns in the given tensor were picked from. A
// tensor that was computed from texts is returned unchanged.
func (s source) pickedFrom(tensor string) string {
	made := ancestors(s.g, tensor)
	if slices.ContainsFunc(s.inputs, func(in input) bool { return in.texts() && made[in.name] }) {
		return tensor
	}
	for n := s.g.Producer(tensor); n != nil && carries(n); n = s.g.Producer(tensor) {
		from := slices.DeleteFunc(slices.Clone(n.GetInput()), s.is)
		if len(from) != 1 {
			break
		}
		tensor = from[0]
	}
	return tensor
}

// tableInputs returns the numeric inputs of the model that a tensor depends on. It returns
// nil if one of them is not a column or a table, because such inputs have more than two
// axes.
func (s source) tableInputs(tensor string) []string {
	made := ancestors(s.g, tensor)
	var names []string
	for _, v := range s.g.Inputs() {
		t, shape := v.GetType().GetTensorType(), shapeOf(v)
		switch {
		case !made[v.GetName()] || t.GetElemType() == int32(pb.TensorProto_STRING):
		case len(shape) == 1, len(shape) == 2 && (shape[1] > 0 || onnx.IsFloat(pb.TensorProto_DataType(t.GetElemType()))):
			names = append(names, v.GetName())
		default:
			return nil
		}
	}
	return names
}

// carriers are operators that only select, convert, rearrange or scale values.
var carriers = []string{"ArrayFeatureExtractor", "Cast", "Concat", "FeatureVectorizer", "Flatten", "Gather", "Identity", "Reshape", "Scaler", "Slice", "Squeeze", "Unsqueeze"}

// carries reports whether a node only selects, converts, rearranges or scales values.
func carries(n *pb.NodeProto) bool { return slices.Contains(carriers, n.GetOpType()) }

// knowsGaps reports whether the model handles NaN in a tensor, because every NaN reaches
// trees or an imputer for NaN.
func knowsGaps(g *onnx.Graph, tensor string) bool {
	known := false
	for n := range readers(g, tensor, carries) {
		switch op, own := n.GetOpType(), n.GetDomain() == classical; {
		case op == "IsNaN", own && strings.HasPrefix(op, "TreeEnsemble"):
			known = true
		case own && op == "Imputer":
			if gap := onnx.AttributeFloat(n, "replaced_value_float", 0); gap == gap {
				return false
			}
			known = true
		case !carries(n):
			return false
		}
	}
	return known
}

// probabilities reports whether each row of a tensor consists of probabilities that sum to
// 1. It checks this in a run on random inputs.
func (s source) probabilities(ctx context.Context, tensor string) (bool, error) {
	session, err := s.expose(ctx, []view{{tensor: tensor}})
	if err != nil {
		return false, err
	}
	defer session.Close()
	out, n, _, _ := s.inputs.try(ctx, s.g, session) // a failed run is no error, because n is then 0
	if n == 0 {
		return false, ctx.Err()
	}
	defer closeAll(out)
	m, err := asRows(out[0], n)
	if err != nil || m.Cols < 2 {
		return false, nil
	}
	for i := range m.Rows {
		sum := float32(0)
		for _, v := range rows.Row(m, i) {
			if !(v >= -1e-5) {
				return false, nil
			}
			sum += v
		}
		if sum < 1-1e-3 || sum > 1+1e-3 {
			return false, nil
		}
	}
	return true, nil
}

// taskOf returns the task that the classical operators before an output imply, or "" if
// there are no such operators. Classifiers return labels in addition to scores, so an
// output that holds no floats implies classification.
func (s source) taskOf(w *walk) attach.Task {
	labels := slices.ContainsFunc(s.g.Outputs(), func(v *pb.ValueInfoProto) bool { return !floating(v) })
	var task attach.Task
	for n := range s.classicalBefore(w.output) {
		if labels || w.normaliser != "" || n.GetOpType() == "ZipMap" || strings.HasSuffix(n.GetOpType(), "Classifier") {
			return attach.Classification
		}
		if answering(n) {
			task = attach.Regression
		}
	}
	return task
}

// classicalBefore yields the classical nodes that a tensor depends on, in the graph's
// order. Standard nodes that replace classical nodes are included.
func (s source) classicalBefore(tensor string) iter.Seq[*pb.NodeProto] {
	made := ancestors(s.g, tensor)
	return func(yield func(*pb.NodeProto) bool) {
		for _, n := range s.g.Model.GetGraph().GetNode() {
			if len(n.GetInput()) == 0 || len(n.GetOutput()) == 0 || n.GetDomain() != classical && !strings.HasSuffix(n.GetOutput()[0], lowerInput) {
				continue
			}
			if slices.ContainsFunc(n.GetOutput(), func(t string) bool { return made[t] }) && !yield(n) {
				return
			}
		}
	}
}

// classNames returns the names of the classes, in the order of the output columns. It
// returns nil if the model numbers its classes 0, 1, ….
func (s source) classNames(w *walk) []string {
	var names []string
	made := ancestors(s.g, w.output)
	for _, n := range s.g.Model.GetGraph().GetNode() {
		of := s.namedBy(n)
		switch {
		case n.GetDomain() != classical || len(of) < 2 || len(n.GetOutput()) == 0:
		case n.GetOpType() == "ArrayFeatureExtractor" && names == nil, made[strings.TrimSuffix(n.GetOutput()[len(n.GetOutput())-1], unread)]:
			names = of // the last node with names is nearest to the output
		}
	}
	numbered, seen := true, make(map[string]bool)
	for i, name := range names {
		if !utf8.ValidString(name) || seen[name] {
			return nil // repeated or invalid names do not identify classes
		}
		seen[name] = true
		numbered = numbered && name == strconv.Itoa(i)
	}
	if numbered {
		return nil
	}
	return names
}

// namedBy returns the class names that a node contains: the names of its columns, or the
// labels that it picks from.
func (s source) namedBy(n *pb.NodeProto) []string {
	if n.GetOpType() != "ArrayFeatureExtractor" || len(n.GetInput()) == 0 {
		return classLabels(n)
	}
	t, ok := s.g.Const(n.GetInput()[0])
	if !ok {
		return nil
	}
	var names []string
	for _, name := range t.GetStringData() {
		names = append(names, string(name))
	}
	if slices.Contains([]pb.TensorProto_DataType{pb.TensorProto_INT32, pb.TensorProto_INT64}, pb.TensorProto_DataType(t.GetDataType())) {
		numbers, _, _ := onnx.Int64s(t, s.dir) // numbers that cannot be read give no names
		for _, v := range numbers {
			names = append(names, strconv.FormatInt(v, 10))
		}
	}
	return names
}

// classLabels returns the class labels in the attributes of a classifier or a ZipMap, in
// the order of its columns.
func classLabels(n *pb.NodeProto) []string {
	var names []string
	for _, key := range []string{"classlabels_strings", "classlabels_int64s", "classlabels_ints"} {
		a := onnx.Attribute(n, key)
		for _, s := range a.GetStrings() {
			names = append(names, string(s))
		}
		for _, i := range a.GetInts() {
			names = append(names, fmt.Sprint(i))
		}
	}
	return names
}
