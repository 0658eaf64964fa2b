package featurize

import (
	"cmp"
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

// mlDomain is the domain of the operators that models of scikit-learn, LightGBM and
// XGBoost are exported to.
const mlDomain = "ai.onnx.ml"

// inputsAndOutputsName names the feature of a model without a linear layer and of a
// regressor that reads a table, in Options.Feature and Info.Feature. Options.Feature may name
// it for other models of tables too. See Feature.Of.
const inputsAndOutputsName = "attach/inputs-and-outputs"

// maxTableWidth is the largest number of columns that regressesTable takes for a table. Wider
// rows are usually flattened images, signals or embeddings. One column of these says little,
// and boosting on all of them takes minutes.
const maxTableWidth = 256

// estimators are the operators of the classical domain that predict. Other operators of
// this domain only prepare data or convert results.
var estimators = []string{
	"TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor", "SVMClassifier", "SVMRegressor", "LinearClassifier", "LinearRegressor",
}

// isEstimator reports whether a node is an estimator, or the Cast in front of a linear
// layer that replaces an estimator.
func isEstimator(n *pb.NodeProto) bool {
	return strings.HasSuffix(n.GetOutput()[0], lowerInputSuffix) || slices.Contains(estimators, n.GetOpType())
}

// inputsAndOutputsView returns the feature of a model without a linear layer: the inputs of its
// estimators and its predictions. The view is empty if the model has no suitable numeric
// inputs.
func (s modelBuilder) inputsAndOutputsView(w *walk) view {
	tensors := s.estimatorInputs(w.predictions)
	if tensors == nil {
		tensors = s.tableInputs(w.predictions)
	}
	if tensors == nil {
		return view{}
	}
	return view{tensor: inputsAndOutputsName, concat: append(tensors, w.predictions)}
}

// regressesTable reports whether a network predicts numbers from the columns of a table. Its
// inputs then predict the size of errors better than its last layer does, and unusual rows are
// easier to see in them: training removes from the last layer what the prediction does not
// need. task is what the caller says that the model predicts, or "".
func (s modelBuilder) regressesTable(w *walk, l location, task attach.Task) bool {
	if l.lastLayer == nil || cmp.Or(task, l.task, guessTask(w.normaliser, l.lastLayer.Weight.Rows)) != attach.Regression {
		return false
	}
	width := 0
	for _, name := range s.tableInputs(w.predictions) {
		v := s.graph.Type(name)
		if !onnx.IsFloat(pb.TensorProto_DataType(v.GetType().GetTensorType().GetElemType())) {
			return false // whole numbers may be tokens or categories, whose order means nothing
		}
		columns := 1
		if shape := shapeOf(v); len(shape) == 2 && shape[1] > 0 {
			columns = int(shape[1])
		} else if len(shape) == 2 {
			columns = columnsNeeded(s.graph, name)
		}
		if columns == 0 {
			return false
		}
		width += columns
	}
	return width > 0 && width <= maxTableWidth
}

// estimatorInputs returns the inputs of the estimators before a tensor. Estimators that
// read predictions of other estimators are skipped. If the remaining estimators read
// different inputs, estimatorInputs returns the tensors that these inputs were picked from.
func (s modelBuilder) estimatorInputs(tensor string) []string {
	var tensors []string
	predictions := make(map[string]bool)
	for n := range s.mlNodesBefore(tensor) {
		if !isEstimator(n) {
			continue
		}
		in := n.GetInput()[0]
		for t := range ancestors(s.graph, in) {
			if predictions[t] {
				in = ""
			}
		}
		if in != "" && !slices.Contains(tensors, in) {
			tensors = append(tensors, in)
		}
		for _, t := range n.GetOutput() {
			predictions[t] = true
		}
	}
	if len(tensors) < 2 {
		return tensors
	}
	var sources []string
	for _, t := range tensors {
		if from := s.columnSource(t); !slices.Contains(sources, from) {
			sources = append(sources, from)
		}
	}
	return sources
}

// columnSource returns the tensor that the columns in the given tensor were picked from. A
// tensor that was computed from texts is returned unchanged.
func (s modelBuilder) columnSource(tensor string) string {
	deps := ancestors(s.graph, tensor)
	if slices.ContainsFunc(s.inputs, func(in input) bool { return in.takesText() && deps[in.name] }) {
		return tensor
	}
	for n := s.graph.Producer(tensor); n != nil && passesThrough(n); n = s.graph.Producer(tensor) {
		from := slices.DeleteFunc(slices.Clone(n.GetInput()), s.isConst)
		if len(from) != 1 {
			break
		}
		tensor = from[0]
	}
	return tensor
}

// tableInputs returns the numeric inputs of the model that a tensor depends on. It returns
// nil if one of them is not a column or a table of known width. The width of a table of
// real numbers may be unknown.
func (s modelBuilder) tableInputs(tensor string) []string {
	deps := ancestors(s.graph, tensor)
	var names []string
	for _, v := range s.graph.Inputs() {
		t, shape := v.GetType().GetTensorType(), shapeOf(v)
		switch {
		case !deps[v.GetName()] || t.GetElemType() == int32(pb.TensorProto_STRING):
		case len(shape) == 1, len(shape) == 2 && (shape[1] > 0 || onnx.IsFloat(pb.TensorProto_DataType(t.GetElemType()))):
			names = append(names, v.GetName())
		default:
			return nil
		}
	}
	return names
}

// passThroughOps are operators that only select, convert, rearrange or scale values.
var passThroughOps = []string{"ArrayFeatureExtractor", "Cast", "Concat", "FeatureVectorizer", "Flatten", "Gather", "Identity", "Reshape", "Scaler", "Slice", "Squeeze", "Unsqueeze"}

// passesThrough reports whether a node only selects, converts, rearranges or scales values.
func passesThrough(n *pb.NodeProto) bool { return slices.Contains(passThroughOps, n.GetOpType()) }

// handlesNaN reports whether the model handles NaN in a tensor, because every NaN reaches
// trees, an imputer for NaN or an IsNaN node.
func handlesNaN(g *onnx.Graph, tensor string) bool {
	handled := false
	for n := range readers(g, tensor, passesThrough) {
		switch op, isML := n.GetOpType(), n.GetDomain() == mlDomain; {
		case op == "IsNaN", isML && strings.HasPrefix(op, "TreeEnsemble"):
			handled = true
		case isML && op == "Imputer":
			if missing := onnx.AttributeFloat(n, "replaced_value_float", 0); missing == missing {
				return false
			}
			handled = true
		case !passesThrough(n):
			return false
		}
	}
	return handled
}

// areProbabilities reports whether each row of a tensor consists of probabilities that sum
// to 1. It checks this in a run on random inputs, and returns false if the model cannot run
// on them or the tensor has one column.
func (s modelBuilder) areProbabilities(ctx context.Context, tensor string) (bool, error) {
	session, err := s.expose(ctx, []view{{tensor: tensor}})
	if err != nil {
		return false, err
	}
	defer session.Close()
	out, n, _, _ := s.inputs.tryRun(ctx, s.graph, session) // a failed run is no error, because n is then 0
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
func (s modelBuilder) taskOf(w *walk) attach.Task {
	labels := slices.ContainsFunc(s.graph.Outputs(), func(v *pb.ValueInfoProto) bool { return !mayHoldFloats(v) })
	var task attach.Task
	for n := range s.mlNodesBefore(w.output) {
		if labels || w.normaliser != "" || n.GetOpType() == "ZipMap" || strings.HasSuffix(n.GetOpType(), "Classifier") {
			return attach.Classification
		}
		if isEstimator(n) {
			task = attach.Regression
		}
	}
	return task
}

// mlNodesBefore yields the classical nodes that a tensor depends on, in the graph's order.
// If standard nodes replace a linear model, only the cast of its input is included.
func (s modelBuilder) mlNodesBefore(tensor string) iter.Seq[*pb.NodeProto] {
	deps := ancestors(s.graph, tensor)
	return func(yield func(*pb.NodeProto) bool) {
		for _, n := range s.graph.Model.GetGraph().GetNode() {
			if len(n.GetInput()) == 0 || len(n.GetOutput()) == 0 || n.GetDomain() != mlDomain && !strings.HasSuffix(n.GetOutput()[0], lowerInputSuffix) {
				continue
			}
			if slices.ContainsFunc(n.GetOutput(), func(t string) bool { return deps[t] }) && !yield(n) {
				return
			}
		}
	}
}

// classNames returns the names of the classes, in the order of the output columns. It
// returns nil if the names are unknown or do not identify the classes, or if they are only
// the numbers 0, 1, ….
func (s modelBuilder) classNames(w *walk) []string {
	var names []string
	deps := ancestors(s.graph, w.output)
	for _, n := range s.graph.Model.GetGraph().GetNode() {
		found := s.classNamesIn(n)
		if n.GetDomain() != mlDomain || len(found) < 2 || len(n.GetOutput()) == 0 {
			continue
		}
		scores := n.GetOutput()[len(n.GetOutput())-1]
		if n.GetOpType() == "ArrayFeatureExtractor" && names == nil || deps[scores] || deps[strings.TrimSuffix(scores, ownScoresSuffix)] {
			names = found // the last node with names is nearest to the output
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

// classNamesIn returns the class names that a node contains: the names of its columns, or the
// labels that it picks from.
func (s modelBuilder) classNamesIn(n *pb.NodeProto) []string {
	if n.GetOpType() != "ArrayFeatureExtractor" || len(n.GetInput()) == 0 {
		return classLabels(n)
	}
	t, ok := s.graph.Const(n.GetInput()[0])
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
