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
	output     string // output of the graph where the walk started
	logits     string // tensor of scores before any normaliser
	normaliser string // operator that turns the logits into the output, or ""
	node       *pb.NodeProto
	feature    view
	answers    string // tensor of predictions before any ZipMap
	shared     bool   // whether probabilities are divided by their sum
	pooled     bool   // whether positions are averaged after the layer
	steps      []step // affine nodes after the layer, starting with the last
	scale      string // constant that scales the layer's integer weights, if the layer itself does not hold it
	reasons    []string
}

// step is an affine node after the linear layer.
type step struct {
	op       string
	node     *pb.NodeProto
	operand  string // constant operand of an arithmetic node
	reversed bool   // whether the constant is the left operand
}

// find walks back from an output to its last linear layer. If it finds none, the error
// names the node where the walk ended, and the result contains what the walk recorded
// before.
func find(k *constants, output string) (*walk, error) {
	w := &walk{output: output, logits: output, answers: output}
	at := output
	for range len(k.g.Model.GetGraph().GetNode()) + 1 {
		n := k.g.Producer(at)
		if n == nil {
			return w, fmt.Errorf("the walk back from %q reaches %q, which no node makes, before any linear layer", output, at)
		}
		next, done, err := w.pass(k, n, at)
		if err != nil {
			return w, fmt.Errorf("the walk back from %q ends at %s: %w", output, describe(k.g, n), err)
		}
		if done {
			return w, nil
		}
		at = next
	}
	return w, fmt.Errorf("the walk back from %q goes in a circle", output)
}

// describe formats the name and the operator of a node for messages.
func describe(g *onnx.Graph, n *pb.NodeProto) string {
	return fmt.Sprintf("node %s (%s)", g.NodeName(n), n.GetOpType())
}

// pass moves the walk past the node n, whose first output must be the tensor made. It
// returns the input where the walk continues. If n is the linear layer, pass returns done.
func (w *walk) pass(k *constants, n *pb.NodeProto, made string) (next string, done bool, err error) {
	op := n.GetOpType()
	if len(n.GetInput()) == 0 {
		return "", false, errors.New("it has no inputs")
	}
	in := n.GetInput()[0]
	if n.GetOutput()[0] != made {
		return "", false, fmt.Errorf("tensor %q is not its first output", made)
	}
	_, linear := slots[op]
	switch {
	case linear:
		return "", true, w.arrive(k, n)
	case normalisers[op]:
		if w.normaliser = op; op == "Sigmoid" && w.shared {
			w.normaliser = "Normalizer" // although each output is a sigmoid, each row belongs to one class
		}
		w.logits, w.answers = in, made
		w.steps, w.reasons, w.pooled = nil, nil, false
		return in, false, nil
	case op == "ZipMap":
		w.logits, w.answers = in, in
		return in, false, nil
	case passers[op]:
		return in, false, nil
	case rounders[op]:
		w.because("the output is quantised to 8 bits")
		return in, false, nil
	case activations[op]:
		w.shared = op == "Normalizer"
		w.because("%s lies between the layer and the output", op)
		return in, false, nil
	case averages[op]:
		w.pooled = true
		return in, false, nil
	}
	switch op {
	case "Concat":
		// A binary classifier with one logit concatenates the probabilities of both
		// classes.
		if in, ok := both(k, n); ok {
			w.reasons = nil
			return in, false, nil
		}
	case "Neg":
		w.steps = append(w.steps, step{op: op})
		return in, false, nil
	case "BatchNormalization":
		if len(n.GetInput()) != 5 {
			return "", false, fmt.Errorf("it has %d inputs", len(n.GetInput()))
		}
		for _, v := range n.GetInput()[1:] {
			if !k.is(v) {
				return "", false, errors.New("its parameters are not constant")
			}
		}
		w.steps = append(w.steps, step{op: op, node: n})
		return in, false, nil
	case "Add", "Sub", "Mul", "Div", "Sum":
		if len(n.GetInput()) != 2 {
			return "", false, fmt.Errorf("it has %d inputs", len(n.GetInput()))
		}
		other := n.GetInput()[1]
		switch {
		case k.is(other):
			w.steps = append(w.steps, step{op: op, operand: other})
			return in, false, nil
		case k.is(in) && op != "Div":
			w.steps = append(w.steps, step{op: op, operand: in, reversed: true})
			return other, false, nil
		case op == "Mul":
			// The integers that a dynamically quantised layer returns are multiplied by the
			// product of two scales.
			for i, v := range n.GetInput() {
				if integer := integerLayer(k.g, v); integer != nil {
					w.scale = weightScale(k, n.GetInput()[1-i])
					return "", true, w.arrive(k, integer)
				}
			}
		}
		return "", false, errors.New("neither of its inputs is constant")
	}
	return "", false, errors.New("it is neither a linear layer nor one that only reshapes or normalises")
}

// because adds a reason why the logits are not exactly Wφ + b.
func (w *walk) because(format string, args ...any) {
	if r := fmt.Sprintf(format, args...); !slices.Contains(w.reasons, r) {
		w.reasons = append(w.reasons, r)
	}
}

// both returns the tensor p if a node concatenates 1−p and p.
func both(k *constants, n *pb.NodeProto) (p string, ok bool) {
	if len(n.GetInput()) != 2 {
		return "", false
	}
	p = n.GetInput()[1]
	rest := k.g.Producer(n.GetInput()[0])
	return p, rest != nil && rest.GetOpType() == "Sub" && len(rest.GetInput()) == 2 && rest.GetInput()[1] == p && k.is(rest.GetInput()[0])
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
	n := k.g.Producer(tensor)
	if n == nil || n.GetOpType() != "Mul" {
		return ""
	}
	for _, v := range n.GetInput() {
		if k.is(v) {
			return v
		}
	}
	return ""
}

// arrive checks that a node is a linear layer logits = Wφ + b with constant W, and records
// where its input φ is read.
func (w *walk) arrive(k *constants, n *pb.NodeProto) error {
	in := n.GetInput()
	s := slots[n.GetOpType()]
	for _, i := range []int{s.weight, s.bias} {
		if i > 0 && i < len(in) && in[i] != "" && !k.is(in[i]) {
			return errors.New("its weights are not constant")
		}
	}
	if s.weight >= len(in) {
		return fmt.Errorf("it has %d inputs", len(in))
	}
	var err error
	if w.feature, err = reading(k.g, n); err != nil {
		return err
	}
	w.node = n
	w.feature.tokens = w.feature.tokens && w.pooled
	if strings.HasSuffix(in[0], lowerInput) {
		w.feature.tensor = k.g.Producer(in[0]).GetInput()[0]
	}
	if a := onnx.AttributeString(n, "activation", ""); a != "" {
		w.because("%s lies between the layer and the output", a)
	}
	if integers(n) {
		w.because("the layer computes in 8-bit integers")
	}
	if w.feature.spatial {
		return w.pointwise(n)
	}
	return nil
}

// reading returns a view of the input of a linear layer.
func reading(g *onnx.Graph, n *pb.NodeProto) (view, error) {
	v := view{tensor: n.GetInput()[0], spatial: strings.Contains(n.GetOpType(), "Conv")}
	v.tokens = !v.spatial
	if onnx.AttributeInt(n, "transA", 0) != 0 {
		return v, errors.New("it transposes its data")
	}
	if integers(n) {
		return v, v.dequantise(g, n)
	}
	return v, nil
}

// integers reports whether a linear layer computes in 8-bit integers.
func integers(n *pb.NodeProto) bool {
	return slots[n.GetOpType()].weightScale > 0 || n.GetOpType() == "MatMulInteger" || n.GetOpType() == "ConvInteger"
}

// pointwise checks that a convolution acts on each position separately, like a linear
// layer.
func (w *walk) pointwise(n *pb.NodeProto) error {
	if onnx.AttributeInt(n, "group", 1) != 1 {
		return errors.New("it is a grouped convolution")
	}
	if slices.ContainsFunc(onnx.AttributeInts(n, "kernel_shape"), func(v int64) bool { return v != 1 }) {
		return errors.New("its kernel is larger than 1×1")
	}
	if slices.ContainsFunc(onnx.AttributeInts(n, "strides"), func(v int64) bool { return v != 1 }) {
		w.because("the convolution skips positions")
	}
	if slices.ContainsFunc(onnx.AttributeInts(n, "pads"), func(v int64) bool { return v != 0 }) {
		w.because("the convolution pads its input")
	}
	return nil
}

// dequantise changes a view of 8-bit integers to a view of floats. If the integers were
// quantised from a float tensor, the view reads that tensor. Otherwise the view scales the
// integers to floats.
func (v *view) dequantise(g *onnx.Graph, n *pb.NodeProto) error {
	s := slots[n.GetOpType()]
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

// normalisers are operators that map logits to probabilities.
var normalisers = map[string]bool{
	"Softmax": true, "LogSoftmax": true, "Sigmoid": true, "HardSigmoid": true,
}

// passers are operators that keep the values of their first input and change at most its
// shape or its element type.
var passers = map[string]bool{
	"Identity": true, "Dropout": true, "Cast": true, "CastLike": true, "Flatten": true, "Reshape": true,
	"Squeeze": true, "Unsqueeze": true, "Transpose": true, "Expand": true,
}

// rounders are operators that only round the values of their first input to 8 bits or scale
// them back.
var rounders = map[string]bool{"QuantizeLinear": true, "DequantizeLinear": true}

// activations are nonlinear operators on single elements, or on rows for LpNormalization
// and Normalizer. The last linear layer may come before them.
var activations = map[string]bool{
	"Relu": true, "LeakyRelu": true, "PRelu": true, "Elu": true, "Selu": true, "Celu": true, "Clip": true,
	"ThresholdedRelu": true, "Tanh": true, "Softplus": true, "Softsign": true, "HardSwish": true, "Gelu": true,
	"Mish": true, "Exp": true, "Log": true, "Sqrt": true, "Abs": true, "Erf": true, "Floor": true, "Ceil": true,
	"Round": true, "LpNormalization": true, "Normalizer": true, "GlobalMaxPool": true,
}

// averages are operators that compute means over positions. The order of such a mean and a
// linear layer that acts on each position does not matter.
var averages = map[string]bool{
	"GlobalAveragePool": true, "AveragePool": true, "ReduceMean": true, "QLinearGlobalAveragePool": true,
	"QLinearAveragePool": true,
}

// slot describes the inputs of a linear operator: which input holds its weight, its bias
// and so on. 0 means that the operator has no such input, because input 0 is always the
// data.
type slot struct {
	weight, bias            int
	dataScale, dataZero     int
	weightScale, weightZero int
}

// slots lists the linear operators, including those in quantised and fused graphs. The walk
// back ends at such an operator.
var slots = map[string]slot{
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
