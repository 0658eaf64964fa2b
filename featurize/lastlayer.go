package featurize

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// walk records a walk back through the graph from an output to its last linear layer.
type walk struct {
	output       string // output of the graph where the walk started
	logits       string // tensor of scores before any normaliser
	normaliser   string // operator that turns the logits into the output, or ""
	layerNode    *pb.NodeProto
	feature      view
	predictions  string       // tensor of predictions before any ZipMap
	dividedBySum bool         // whether probabilities are divided by their sum
	averaged     bool         // whether positions are averaged after the layer
	steps        []affineStep // affine nodes after the layer, starting with the last
	weightScale  string       // constant that scales the layer's integer weights, if the layer itself does not hold it
	reasons      []string
}

// affineStep is an affine node after the linear layer.
type affineStep struct {
	op       string
	node     *pb.NodeProto
	operand  string // constant operand of an arithmetic node
	reversed bool   // whether the constant is the left operand
}

// findLastLayer walks back from an output to its last linear layer. If it finds none, the
// error says where the walk ended, and the result contains what the walk recorded before.
func findLastLayer(k *constants, output string) (*walk, error) {
	w := &walk{output: output, logits: output, predictions: output}
	tensor := output
	for range len(k.graph.Model.GetGraph().GetNode()) + 1 {
		n := k.graph.Producer(tensor)
		if n == nil {
			return w, fmt.Errorf("the walk back from %q reaches %q, which no node makes, before any linear layer", output, tensor)
		}
		next, done, err := w.visit(k, n, tensor)
		if err != nil {
			return w, fmt.Errorf("the walk back from %q ends at %s: %w", output, describe(k.graph, n), err)
		}
		if done {
			return w, nil
		}
		tensor = next
	}
	return w, fmt.Errorf("the walk back from %q goes in a circle", output)
}

// describe formats the name and the operator of a node for messages.
func describe(g *onnx.Graph, n *pb.NodeProto) string {
	return fmt.Sprintf("node %s (%s)", g.NodeName(n), n.GetOpType())
}

// visit moves the walk past the node n, whose first output must be the tensor out. It
// returns the input where the walk continues. If n is the linear layer, done is true.
func (w *walk) visit(k *constants, n *pb.NodeProto, out string) (next string, done bool, err error) {
	op := n.GetOpType()
	if len(n.GetInput()) == 0 {
		return "", false, errors.New("it has no inputs")
	}
	in := n.GetInput()[0]
	if n.GetOutput()[0] != out {
		return "", false, fmt.Errorf("tensor %q is not its first output", out)
	}
	_, linear := linearOps[op]
	switch {
	case linear:
		return "", true, w.recordLayer(k, n)
	case normaliserOps[op]:
		if w.normaliser = op; op == "Sigmoid" && w.dividedBySum {
			w.normaliser = "Normalizer" // although each output is a sigmoid, each row belongs to one class
		}
		w.logits, w.predictions = in, out
		w.steps, w.reasons, w.averaged = nil, nil, false
		return in, false, nil
	case op == "ZipMap":
		w.logits, w.predictions = in, in
		return in, false, nil
	case reshapeOps[op]:
		return in, false, nil
	case quantiseOps[op]:
		w.addReason("the output is quantised to 8 bits")
		return in, false, nil
	case activationOps[op]:
		w.dividedBySum = op == "Normalizer"
		w.addReason("%s lies between the layer and the output", op)
		return in, false, nil
	case meanOps[op]:
		w.averaged = true
		return in, false, nil
	}
	switch op {
	case "Concat":
		// A binary classifier with one logit concatenates the probabilities of both
		// classes.
		if in, ok := complementOf(k, n); ok {
			w.reasons = nil
			return in, false, nil
		}
	case "Neg":
		w.steps = append(w.steps, affineStep{op: op})
		return in, false, nil
	case "BatchNormalization":
		if len(n.GetInput()) != 5 {
			return "", false, fmt.Errorf("it has %d inputs", len(n.GetInput()))
		}
		for _, v := range n.GetInput()[1:] {
			if !k.isConst(v) {
				return "", false, errors.New("its parameters are not constant")
			}
		}
		w.steps = append(w.steps, affineStep{op: op, node: n})
		return in, false, nil
	case "Add", "Sub", "Mul", "Div", "Sum":
		if len(n.GetInput()) != 2 {
			return "", false, fmt.Errorf("it has %d inputs", len(n.GetInput()))
		}
		other := n.GetInput()[1]
		switch {
		case k.isConst(other):
			w.steps = append(w.steps, affineStep{op: op, operand: other})
			return in, false, nil
		case k.isConst(in) && op != "Div":
			w.steps = append(w.steps, affineStep{op: op, operand: in, reversed: true})
			return other, false, nil
		case op == "Mul":
			// The integers that a dynamically quantised layer returns are multiplied by the
			// product of two scales.
			for i, v := range n.GetInput() {
				if integer := integerLayer(k.graph, v); integer != nil {
					w.weightScale = weightScale(k, n.GetInput()[1-i])
					return "", true, w.recordLayer(k, integer)
				}
			}
		}
		return "", false, errors.New("neither of its inputs is constant")
	}
	return "", false, errors.New("it is neither a linear layer nor one that only reshapes or normalises")
}

// addReason adds a reason why the logits are not exactly Wφ + b.
func (w *walk) addReason(format string, args ...any) {
	if r := fmt.Sprintf(format, args...); !slices.Contains(w.reasons, r) {
		w.reasons = append(w.reasons, r)
	}
}

// complementOf returns the tensor p if a node concatenates 1−p and p.
func complementOf(k *constants, n *pb.NodeProto) (p string, ok bool) {
	if len(n.GetInput()) != 2 {
		return "", false
	}
	p = n.GetInput()[1]
	oneMinus := k.graph.Producer(n.GetInput()[0])
	return p, oneMinus != nil && oneMinus.GetOpType() == "Sub" && len(oneMinus.GetInput()) == 2 && oneMinus.GetInput()[1] == p && k.isConst(oneMinus.GetInput()[0])
}

// integerLayer returns the layer that computed the 32-bit integers in a tensor, or nil.
func integerLayer(g *onnx.Graph, tensor string) *pb.NodeProto {
	for range 8 {
		n := g.Producer(tensor)
		switch {
		case n == nil || len(n.GetInput()) == 0:
			return nil
		case n.GetOpType() == "MatMulInteger" || n.GetOpType() == "ConvInteger":
			return n
		case n.GetOpType() != "Cast" && n.GetOpType() != "Identity":
			return nil
		}
		tensor = n.GetInput()[0]
	}
	return nil
}

// weightScale returns the constant factor of a product of two scales, or "" if there is
// none.
func weightScale(k *constants, tensor string) string {
	n := k.graph.Producer(tensor)
	if n == nil || n.GetOpType() != "Mul" {
		return ""
	}
	for _, v := range n.GetInput() {
		if k.isConst(v) {
			return v
		}
	}
	return ""
}

// recordLayer checks that a node is a linear layer logits = Wφ + b with constant W and b,
// and records where its input φ is read.
func (w *walk) recordLayer(k *constants, n *pb.NodeProto) error {
	in := n.GetInput()
	s := linearOps[n.GetOpType()]
	for _, i := range []int{s.weight, s.bias} {
		if i > 0 && i < len(in) && in[i] != "" && !k.isConst(in[i]) {
			return errors.New("its weights are not constant")
		}
	}
	if s.weight >= len(in) {
		return fmt.Errorf("it has %d inputs", len(in))
	}
	var err error
	if w.feature, err = inputView(k.graph, n); err != nil {
		return err
	}
	w.layerNode = n
	w.feature.meanOverTokens = w.feature.meanOverTokens && w.averaged
	if strings.HasSuffix(in[0], lowerInputSuffix) {
		w.feature.tensor = k.graph.Producer(in[0]).GetInput()[0]
	}
	if a := onnx.AttributeString(n, "activation", ""); a != "" {
		w.addReason("%s lies between the layer and the output", a)
	}
	if isQuantised(n) {
		w.addReason("the layer computes in 8-bit integers")
	}
	if w.feature.meanOverSpace {
		return w.checkPointwise(n)
	}
	return nil
}

// inputView returns a view of the input of a linear layer.
func inputView(g *onnx.Graph, n *pb.NodeProto) (view, error) {
	v := view{tensor: n.GetInput()[0], meanOverSpace: strings.Contains(n.GetOpType(), "Conv")}
	v.meanOverTokens = !v.meanOverSpace
	if onnx.AttributeInt(n, "transA", 0) != 0 {
		return v, errors.New("it transposes its data")
	}
	if isQuantised(n) {
		return v, v.dequantise(g, n)
	}
	return v, nil
}

// isQuantised reports whether a linear layer computes in 8-bit integers.
func isQuantised(n *pb.NodeProto) bool {
	return linearOps[n.GetOpType()].weightScale > 0 || n.GetOpType() == "MatMulInteger" || n.GetOpType() == "ConvInteger"
}

// checkPointwise checks that a convolution acts on each position separately, like a linear
// layer.
func (w *walk) checkPointwise(n *pb.NodeProto) error {
	if onnx.AttributeInt(n, "group", 1) != 1 {
		return errors.New("it is a grouped convolution")
	}
	if slices.ContainsFunc(onnx.AttributeInts(n, "kernel_shape"), func(v int64) bool { return v != 1 }) {
		return errors.New("its kernel is larger than 1×1")
	}
	if slices.ContainsFunc(onnx.AttributeInts(n, "strides"), func(v int64) bool { return v != 1 }) {
		w.addReason("the convolution skips positions")
	}
	if slices.ContainsFunc(onnx.AttributeInts(n, "pads"), func(v int64) bool { return v != 0 }) {
		w.addReason("the convolution pads its input")
	}
	return nil
}

// dequantise changes a view of 8-bit integers to a view of floats. If the integers were
// quantised from a float tensor, the view reads that tensor. Otherwise the view scales the
// integers to floats.
func (v *view) dequantise(g *onnx.Graph, n *pb.NodeProto) error {
	s := linearOps[n.GetOpType()]
	if n.GetOpType() == "DynamicQuantizeMatMul" {
		return nil // the operator itself reads floats
	}
	if q := g.Producer(v.tensor); q != nil && len(q.GetInput()) > 0 && (q.GetOpType() == "DynamicQuantizeLinear" || q.GetOpType() == "QuantizeLinear") {
		v.tensor = q.GetInput()[0]
		return nil
	}
	if s.dataScale == 0 || s.dataScale >= len(n.GetInput()) {
		return errors.New("no float tensor leads to its 8-bit input")
	}
	v.scale = n.GetInput()[s.dataScale]
	if s.dataZero < len(n.GetInput()) {
		v.zero = n.GetInput()[s.dataZero]
	}
	return nil
}

// normaliserOps are operators that map logits to probabilities.
var normaliserOps = map[string]bool{
	"Softmax": true, "LogSoftmax": true, "Sigmoid": true, "HardSigmoid": true,
}

// reshapeOps are operators that keep the values of their first input and change at most its
// shape or its element type.
var reshapeOps = map[string]bool{
	"Identity": true, "Dropout": true, "Cast": true, "CastLike": true, "Flatten": true, "Reshape": true,
	"Squeeze": true, "Unsqueeze": true, "Transpose": true, "Expand": true,
}

// quantiseOps are operators that only round the values of their first input to 8 bits or scale
// them back.
var quantiseOps = map[string]bool{"QuantizeLinear": true, "DequantizeLinear": true}

// activationOps are nonlinear operators on single elements. Exceptions are LpNormalization
// and Normalizer, which act on rows, and GlobalMaxPool, which acts on positions. The last
// linear layer may come before these operators.
var activationOps = map[string]bool{
	"Relu": true, "LeakyRelu": true, "PRelu": true, "Elu": true, "Selu": true, "Celu": true, "Clip": true,
	"ThresholdedRelu": true, "Tanh": true, "Softplus": true, "Softsign": true, "HardSwish": true, "Gelu": true,
	"Mish": true, "Exp": true, "Log": true, "Sqrt": true, "Abs": true, "Erf": true, "Floor": true, "Ceil": true,
	"Round": true, "LpNormalization": true, "Normalizer": true, "GlobalMaxPool": true,
}

// meanOps are operators that compute means over positions. The order of such a mean and a
// linear layer that acts on each position does not matter.
var meanOps = map[string]bool{
	"GlobalAveragePool": true, "AveragePool": true, "ReduceMean": true, "QLinearGlobalAveragePool": true,
	"QLinearAveragePool": true,
}

// operandIndexes describes the inputs of a linear operator: which input holds its weight, its bias
// and so on. 0 means that the operator has no such input, because input 0 is always the
// data.
type operandIndexes struct {
	weight, bias            int
	dataScale, dataZero     int
	weightScale, weightZero int
}

// linearOps lists the linear operators, including those in quantised and fused graphs. The walk
// back ends at such an operator.
var linearOps = map[string]operandIndexes{
	"Gemm":                  {weight: 1, bias: 2},
	"FusedGemm":             {weight: 1, bias: 2},
	"MatMul":                {weight: 1},
	"FusedMatMul":           {weight: 1},
	"Conv":                  {weight: 1, bias: 2},
	"FusedConv":             {weight: 1, bias: 2},
	"MatMulInteger":         {weight: 1, weightZero: 3},
	"ConvInteger":           {weight: 1, weightZero: 3},
	"QLinearMatMul":         {dataScale: 1, dataZero: 2, weight: 3, weightScale: 4, weightZero: 5},
	"QLinearConv":           {dataScale: 1, dataZero: 2, weight: 3, weightScale: 4, weightZero: 5, bias: 8},
	"QGemm":                 {dataScale: 1, dataZero: 2, weight: 3, weightScale: 4, weightZero: 5, bias: 6},
	"MatMulIntegerToFloat":  {weight: 1, dataScale: 2, weightScale: 3, dataZero: 4, weightZero: 5, bias: 6},
	"DynamicQuantizeMatMul": {weight: 1, weightScale: 2, weightZero: 3, bias: 4},
}
