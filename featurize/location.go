package featurize

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// modelBuilder builds a Model in three steps. locate finds the tensors to read, expose
// opens a session that returns them, and probe runs the session on random rows. Each step
// returns what the next step needs.
type modelBuilder struct {
	*constants
	inputs      inputs
	exportFiles *folder
	log         *slog.Logger // nil discards messages
}

// location describes which tensors of a model are read.
type location struct {
	*walk                 // the output and the last linear layer
	lastLayer *ood.Linear // weights of the last linear layer, or nil if unknown
	isNamed   bool        // whether the caller named the feature
	// lastLayerInput is what the last linear layer reads, if the features are the inputs and
	// predictions although there is such a layer.
	lastLayerInput view
	mixedUnits     bool        // whether the columns of the feature have different units
	isLog          bool        // whether the logits are logarithms of probabilities
	classes        []string    // names of the classes
	task           attach.Task // task that the operators imply, or ""
	layers         []view      // earlier layers
}

// locate finds the features φ. They are the tensor that the caller names, or else the
// output of embeddings, the inputs and predictions of a regressor of a table, or the input of
// the last linear layer. Without such a layer they are the inputs and predictions of a model
// that reads a table. If there is none of these, locate returns a NoLinearLayerError.
func (s modelBuilder) locate(ctx context.Context, o Options) (l location, err error) {
	if tensor := s.embedding(o); tensor != "" {
		return s.locateEmbedding(ctx, tensor, o)
	}
	w, reason, err := s.chooseOutput(o.Output)
	if err != nil {
		return l, err
	}
	if w.layerNode != nil {
		if l.lastLayer, err = w.weights(ctx, s.constants); err != nil {
			if ctx.Err() != nil || errors.Is(err, onnx.ErrExternalData) {
				return l, err
			}
			w.addReason("its weights could not be read: %v", err)
		}
		if w.feature.meanOverTokens {
			if w.feature.rank, err = s.rank(ctx, w.feature.tensor); err != nil {
				return l, err
			}
		}
	}
	l.task, l.classes = s.taskOf(w), s.classNames(w)
	if w.layerNode == nil && w.normaliser == "" && l.task == attach.Classification {
		if l.isLog, err = s.areProbabilities(ctx, w.logits); err != nil {
			return l, err
		}
	}
	if o.Feature == inputsAndOutputsName || o.Feature == "" && (w.layerNode == nil || s.regressesTable(w, l, o.Task)) {
		if w.layerNode != nil {
			l.lastLayerInput = w.feature
		}
		w.layerNode, l.lastLayer = nil, nil
		if w.feature = s.inputsAndOutputsView(w); w.feature.concat != nil {
			w.addReason("the features are the model's inputs and predictions")
		}
	}
	// Linear models of the classical domain read the columns of a table directly, so their
	// features have different units.
	l.mixedUnits = w.feature.concat != nil || w.layerNode != nil && strings.HasSuffix(w.layerNode.GetInput()[0], lowerInputSuffix)
	if l.isNamed = o.Feature != "" && o.Feature != w.feature.tensor; l.isNamed {
		if w.feature, err = s.namedView(ctx, o.Feature, "the feature"); err != nil {
			return l, err
		}
	}
	if w.feature.tensor == "" {
		return l, &NoLinearLayerError{Reason: reason}
	}
	l.walk = w
	return s.locateLayers(ctx, l, o)
}

// locateLayers finds the earlier layers, and sets the masks for averages over tokens.
func (s modelBuilder) locateLayers(ctx context.Context, l location, o Options) (location, error) {
	var err error
	before := l.feature
	if l.lastLayerInput.tensor != "" {
		before = l.lastLayerInput
	}
	if l.layers, err = s.findLayers(ctx, before, o); err != nil {
		return l, err
	}
	var means []*view
	if l.isNamed || l.logits == "" {
		means = append(means, &l.feature)
	}
	for i := range l.layers {
		means = append(means, &l.layers[i])
	}
	return l, s.setMasks(ctx, means)
}

// views returns views of φ, the logits and the earlier layers. If the model has no logits,
// a second view of φ takes their place and is ignored.
func (l location) views() []view {
	logits := view{tensor: l.logits, isLog: l.isLog}
	if l.logits == "" {
		logits = l.feature
	}
	return append([]view{l.feature, logits}, l.layers...)
}

// expose opens a session that computes the views from rows.
func (s modelBuilder) expose(ctx context.Context, views []view) (*ort.Session, error) {
	names := viewNames(views)
	model := exposeViews(s.graph, s.inputs, views, names)
	session, err := s.runtime.NewSession(ctx, ort.Model{Proto: model, Dir: s.dir}, s.inputs.feedNames(), names)
	if err != nil {
		return nil, fmt.Errorf("ONNX Runtime cannot load the model: %w", err)
	}
	return session, nil
}

// describe returns the Info that the file itself provides. If l is set, Info also describes
// which tensors are read.
func (s modelBuilder) describe(l location) Info {
	value := func(v *pb.ValueInfoProto) Value {
		val := Value{Name: v.GetName(), Shape: shapeOf(v), DType: "unknown"}
		if t := v.GetType().GetTensorType(); t != nil {
			val.DType = onnx.DTypeName(t.GetElemType())
		}
		return val
	}
	info := Info{
		Opset: s.graph.Opset(), IRVersion: s.graph.Model.GetIrVersion(), Inputs: []Value{}, Outputs: []Value{},
		Providers: s.runtime.Providers(), Task: cmp.Or(l.task, "unknown"), FixedBatch: s.inputs.fixedBatch(),
	}
	for _, in := range s.inputs {
		val := value(s.graph.Type(in.name))
		val.Optional, val.NaN = in.isOptional(), in.acceptsNaN
		info.Inputs = append(info.Inputs, val)
	}
	for _, v := range s.graph.Outputs() {
		info.Outputs = append(info.Outputs, value(v))
	}
	if in := s.inputs.imageInput(); in != nil {
		info.Layout = in.layout()
	}
	if l.walk == nil {
		return info
	}
	info.Output, info.Logits, info.Normaliser = l.output, l.logits, l.normaliser
	info.Classes, info.ClassNumbers = l.classes, numbersOf(l.classes)
	info.Feature = &Feature{Tensor: l.feature.tensor, Of: l.feature.concat, LastLayer: l.lastLayerInput.tensor, Standardised: l.mixedUnits}
	featureNode := l.layerNode
	if l.isNamed {
		featureNode = s.graph.Producer(l.feature.tensor)
	}
	if featureNode != nil {
		info.Feature.Node, info.Feature.Op = s.graph.NodeName(featureNode), featureNode.GetOpType()
	}
	for _, v := range l.layers {
		info.Layers = append(info.Layers, attach.Layer{Tensor: v.tensor})
	}
	return info
}

// chooseOutput chooses the output and finds the last linear layer before it. If there is no such
// layer, the returned walk has no node, and reason explains why.
func (s modelBuilder) chooseOutput(output string) (w *walk, reason string, err error) {
	var outputs, names []string
	for _, v := range s.graph.Outputs() {
		names = append(names, strconv.Quote(v.GetName()))
		if mayHoldFloats(v) {
			outputs = append(outputs, v.GetName())
		}
	}
	if output != "" {
		if s.graph.Producer(output) == nil {
			return nil, "", fmt.Errorf("the model has no output or tensor %q; its outputs are %s", output, strings.Join(names, ", "))
		}
		outputs = []string{output}
	}
	if len(outputs) == 0 {
		return nil, "", fmt.Errorf("none of the model's outputs (%s) holds floating-point numbers; name another tensor as the output", strings.Join(names, ", "))
	}
	var reasons []string
	var partial *walk // what the first failed walk recorded
	for _, name := range outputs {
		found, err := findLastLayer(s.constants, name)
		switch {
		case err != nil:
			reasons = append(reasons, err.Error())
			if partial == nil {
				partial = &walk{output: name, logits: found.logits, predictions: found.predictions, normaliser: found.normaliser}
			}
		case w == nil, w.normaliser == "" && ancestors(s.graph, found.feature.tensor)[w.logits]:
			// In the second case, the first output is an embedding, and the logits are
			// computed from it.
			w = found
		}
	}
	if w != nil {
		return w, "", nil
	}
	return partial, strings.Join(reasons, "; "), nil
}

// mayHoldFloats reports whether an output may hold floats. A ZipMap's sequence of maps counts,
// because the walk back passes the ZipMap.
func mayHoldFloats(v *pb.ValueInfoProto) bool {
	t := v.GetType().GetTensorType()
	if t == nil {
		return true
	}
	elem := pb.TensorProto_DataType(t.GetElemType())
	return elem == pb.TensorProto_UNDEFINED || onnx.IsFloat(elem)
}

// namedView returns a view of a tensor that the caller chose. use describes the use of the
// tensor in error messages.
func (s modelBuilder) namedView(ctx context.Context, tensor, use string) (view, error) {
	v := view{tensor: tensor}
	if s.graph.Producer(tensor) == nil && s.inputs.byName(tensor) == nil {
		return v, fmt.Errorf("the model has no tensor %q to use as %s%s", tensor, use, candidateHint("; it has", s.candidates(ctx)))
	}
	if s.isConst(tensor) {
		return v, fmt.Errorf("tensor %q is a constant and cannot be %s", tensor, use)
	}
	var err error
	if v.rank, err = s.rank(ctx, tensor); err != nil {
		return v, err
	}
	last := int64(0)
	if n := s.graph.Producer(tensor); n != nil && n.GetOpType() == "Transpose" {
		perm := onnx.AttributeInts(n, "perm")
		if len(perm) > 0 {
			last = perm[len(perm)-1]
		}
	}
	v.meanOverTokens = v.rank == 3 || v.rank > 3 && last == 1
	v.meanOverSpace = v.rank > 3 && !v.meanOverTokens
	return v, nil
}

// rank returns the number of axes of a tensor.
func (s modelBuilder) rank(ctx context.Context, tensor string) (int, error) {
	ranks, err := s.ranks(ctx, []string{tensor})
	return ranks[tensor], err
}

// ranks returns the number of axes of each tensor. It takes the number from the declared
// shape, or else from a run on random inputs.
func (s modelBuilder) ranks(ctx context.Context, tensors []string) (map[string]int, error) {
	ranks := make(map[string]int)
	var undeclared []string
	for _, tensor := range tensors {
		if v := s.graph.Type(tensor); v != nil && shapeOf(v) != nil {
			ranks[tensor] = len(shapeOf(v))
		} else {
			undeclared = append(undeclared, tensor)
		}
	}
	shapes, err := s.probeShapes(ctx, undeclared)
	for _, tensor := range undeclared {
		ranks[tensor] = len(shapes[tensor])
	}
	return ranks, err
}

// numbersOf converts names to integers. It returns nil if one of them is not an integer.
func numbersOf(names []string) []int {
	var numbers []int
	for _, name := range names {
		n, err := strconv.Atoi(name)
		if err != nil {
			return nil
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// embeddingNames lists names that exporters give to outputs that are embeddings of a row and
// not predictions. The most processed embedding comes first.
var embeddingNames = [...]string{"sentence_embedding", "last_hidden_state", "token_embeddings"}

// embeddingOutput matches the names of outputs that are not predictions. Some exporters of
// PyTorch use a number as the name.
var embeddingOutput = regexp.MustCompile(`hidden|embed|pool|attention|present|past|^[0-9]+$`)

// embedding returns the feature of a model whose outputs are only embeddings, if one of
// them is in embeddingNames. Otherwise, or if the caller names an output, it returns "".
func (s modelBuilder) embedding(o Options) string {
	outputs := s.graph.Outputs()
	if o.Output != "" || slices.ContainsFunc(outputs, func(v *pb.ValueInfoProto) bool { return !embeddingOutput.MatchString(v.GetName()) }) {
		return ""
	}
	for _, name := range embeddingNames {
		if slices.ContainsFunc(outputs, func(v *pb.ValueInfoProto) bool { return v.GetName() == name && mayHoldFloats(v) }) {
			return cmp.Or(o.Feature, name)
		}
	}
	return ""
}

// locateEmbedding locates the feature of a model that makes no predictions. The feature is
// averaged over positions.
func (s modelBuilder) locateEmbedding(ctx context.Context, tensor string, o Options) (l location, err error) {
	l.walk, l.task = &walk{}, attach.Embedding
	l.addReason("the model makes no predictions; its output is the features")
	if l.feature, err = s.namedView(ctx, tensor, "the feature"); err != nil {
		return l, err
	}
	return s.locateLayers(ctx, l, o)
}
