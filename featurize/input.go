package featurize

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// input describes a tensor that the model takes as input.
type input struct {
	name       string // name in the model
	feedName   string // name in the edited graph
	elemType   int32
	dims       []int    // shape with the batch axis first; −1 may vary; nil means unknown
	axes       []string // the model's names of the axes that may vary; "" if an axis has none
	acceptsNaN bool     // whether the model handles NaN as an empty cell
	// defaultValue is the default value of the input. It has no shape if the input is required.
	defaultValue ood.Tensor
}

// inputs lists the inputs of a model in the graph's order.
type inputs []input

// findInputs lists the required inputs and the optional inputs. An optional input has a
// default that rows may replace, so its first axis must vary. Before IR version 4, rows
// cannot replace a default.
func findInputs(g *onnx.Graph, dir string) (inputs, error) {
	required := make(map[string]bool)
	for _, v := range g.Inputs() {
		required[v.GetName()] = true
	}
	var list inputs
	for _, v := range g.Model.GetGraph().GetInput() {
		in, err := newInput(v)
		if required[in.name] {
			if err != nil {
				return nil, err
			}
			in.acceptsNaN = onnx.IsFloat(pb.TensorProto_DataType(in.elemType)) && handlesNaN(g, in.name)
			list = append(list, in)
			continue
		}
		t, ok := g.Const(in.name)
		if err != nil || !ok || g.Model.GetIrVersion() < 4 || len(in.dims) == 0 || in.dims[0] >= 0 || len(t.GetDims()) != len(in.dims) {
			continue
		}
		data, dims, err := onnx.Float32s(t, dir)
		if err == nil && in.firstMisfit(data) < 0 {
			in.defaultValue.Data = data
			for _, d := range dims {
				in.defaultValue.Shape = append(in.defaultValue.Shape, int(d))
			}
			list = append(list, in)
		}
	}
	if len(required) == 0 {
		return nil, errors.New("the model has no inputs")
	}
	several, batch := len(list) > 1, list.fixedBatch()
	for i, in := range list {
		if several && in.feedName != in.name {
			list[i].feedName += "/" + in.name
		}
		if n := in.fixedBatch(); n > 0 && n != batch {
			return nil, fmt.Errorf("the model's inputs take different numbers of rows: %q takes %d, others %d", in.name, n, batch)
		}
	}
	return list, nil
}

// newInput returns the input that v declares, or an error if rows cannot be fed to it.
func newInput(v *pb.ValueInfoProto) (input, error) {
	t := v.GetType().GetTensorType()
	in := input{name: v.GetName(), feedName: v.GetName(), elemType: t.GetElemType()}
	if t == nil {
		return in, fmt.Errorf("the model's input %q is not a tensor", in.name)
	}
	switch pb.TensorProto_DataType(in.elemType) {
	case pb.TensorProto_FLOAT, pb.TensorProto_STRING:
	case pb.TensorProto_DOUBLE, pb.TensorProto_FLOAT16, pb.TensorProto_BFLOAT16, pb.TensorProto_BOOL,
		pb.TensorProto_UINT8, pb.TensorProto_UINT16, pb.TensorProto_UINT32, pb.TensorProto_UINT64,
		pb.TensorProto_INT8, pb.TensorProto_INT16, pb.TensorProto_INT32, pb.TensorProto_INT64:
		in.feedName = inputName
	default:
		return in, fmt.Errorf("the model's input %q has the type %s, which is not supported", in.name, onnx.DTypeName(in.elemType))
	}
	if t.GetShape() != nil {
		in.dims = []int{}
		for i, d := range shapeOf(v) {
			in.dims = append(in.dims, int(d))
			in.axes = append(in.axes, t.GetShape().GetDim()[i].GetDimParam())
		}
		if len(in.dims) == 0 {
			return in, fmt.Errorf("the model's input %q is a scalar: it has no axis for rows", in.name)
		}
		if floatProduct(in.dims) > maxRun {
			shape := formatShape(in.dims)
			if in.dims[0] > 0 {
				shape = strconv.Itoa(in.dims[0]) + strings.TrimPrefix(shape, "n")
			}
			return in, fmt.Errorf("the model's input %q of %s is larger than the %d GiB that a run may take", in.name, shape, 4*maxRun>>30)
		}
	}
	return in, nil
}

// shapeOf returns the declared shape of a tensor, or nil if it is unknown. A size of −1 may
// vary.
func shapeOf(v *pb.ValueInfoProto) []int64 { return onnx.Shape(v, 1) }

// isOptional reports whether the input has a default value.
func (in input) isOptional() bool { return in.defaultValue.Shape != nil }

// takesText reports whether the input takes texts.
func (in input) takesText() bool { return in.elemType == int32(pb.TensorProto_STRING) }

// fixedBatch returns the number of rows in each run if the input fixes it, and 0 otherwise.
func (in input) fixedBatch() int {
	if len(in.dims) > 0 && in.dims[0] > 0 {
		return in.dims[0]
	}
	return 0
}

// fixedBatch returns the number of rows in each run if an input fixes it, and 0 otherwise.
func (list inputs) fixedBatch() int {
	for _, in := range list {
		if n := in.fixedBatch(); n > 0 {
			return n
		}
	}
	return 0
}

// feedNames returns the names of the inputs in the edited graph.
func (list inputs) feedNames() []string {
	names := make([]string, len(list))
	for i, in := range list {
		names[i] = in.feedName
	}
	return names
}

// byName returns the input with the given name, or nil.
func (list inputs) byName(name string) *input {
	for i, in := range list {
		if in.name == name {
			return &list[i]
		}
	}
	return nil
}

// imageInput returns the first input that can take images, or nil if there is none.
func (list inputs) imageInput() *input {
	for i, in := range list {
		if in.layout() != "" {
			return &list[i]
		}
	}
	return nil
}

// layout returns the axis order of an image input, "nchw" or "nhwc". It returns "" for
// other inputs.
func (in input) layout() string {
	if len(in.dims) != 4 {
		return ""
	}
	isChannels := func(d int) bool { return d == 1 || d == 3 || d == 4 }
	switch {
	case isChannels(in.dims[1]):
		return "nchw"
	case isChannels(in.dims[3]):
		return "nhwc"
	}
	return ""
}

// check returns an error if a tensor does not fit the input.
func (in input) check(t ood.Tensor) error {
	given := "float32"
	if t.Strings != nil {
		given = "texts"
	}
	shape := t.Shape
	if (t.Strings != nil) == in.takesText() && in.fits(t) {
		return nil
	}
	hint := ""
	fitsPermuted := func(perm ...int) bool {
		return len(shape) == 4 && in.fits(ood.Tensor{Shape: []int{shape[0], shape[perm[0]], shape[perm[1]], shape[perm[2]]}})
	}
	if fitsPermuted(2, 3, 1) {
		hint = ": move the channels to the last axis"
	} else if fitsPermuted(3, 1, 2) {
		hint = ": move the channels to the second axis"
	}
	return fmt.Errorf("the model's input %q takes %s of %s, the rows given are %s of %s%s",
		in.name, formatShape(in.dims), onnx.DTypeName(in.elemType), formatShape(shape), given, hint)
}

// fits reports whether a tensor has the shape that the input takes.
func (in input) fits(t ood.Tensor) bool {
	if in.dims == nil {
		return true
	}
	ok := len(t.Shape) == len(in.dims)
	for i := 1; ok && i < len(t.Shape); i++ {
		ok = in.dims[i] < 0 || in.dims[i] == t.Shape[i] || i == 1 && t.Lengths != nil && t.Shape[i] < in.dims[i]
	}
	return ok
}

// formatShape formats a shape, for example as n×3×32×32. The first axis is always written as n.
func formatShape(dims []int) string {
	var b strings.Builder
	b.WriteString("n")
	for _, d := range dims[min(1, len(dims)):] {
		if d < 0 {
			b.WriteString("×?")
		} else {
			fmt.Fprintf(&b, "×%d", d)
		}
	}
	return b.String()
}

// limits returns the smallest and the largest number that rows may hold for the input, and
// whether numbers must be integers. Integers beyond ±2²⁴ are excluded, because rows are
// float32.
func (in input) limits() (lo, hi float32, integers bool) {
	switch pb.TensorProto_DataType(in.elemType) {
	case pb.TensorProto_BOOL:
		return 0, 1, true
	case pb.TensorProto_UINT8:
		return 0, 255, true
	case pb.TensorProto_UINT16:
		return 0, 65535, true
	case pb.TensorProto_UINT32, pb.TensorProto_UINT64:
		return 0, rows.MaxExact, true
	case pb.TensorProto_INT8:
		return -128, 127, true
	case pb.TensorProto_INT16:
		return -32768, 32767, true
	case pb.TensorProto_INT32, pb.TensorProto_INT64:
		return -rows.MaxExact, rows.MaxExact, true
	case pb.TensorProto_FLOAT16:
		return -65504, 65504, false
	}
	return -math.MaxFloat32, math.MaxFloat32, false
}

// firstMisfit returns the index of the first number that the input does not take, or −1.
func (in input) firstMisfit(data []float32) int {
	lo, hi, integers := in.limits()
	if hi == math.MaxFloat32 && !in.acceptsNaN {
		return rows.FirstNotFinite(data)
	}
	for i, v := range data {
		if in.acceptsNaN && v != v {
			continue
		}
		if !(v >= lo && v <= hi) || integers && v != float32(int64(v)) {
			return i
		}
	}
	return -1
}

// misfitError returns the error for a number v that the input does not take. tensor is the
// name of the tensor in the error.
func (in input) misfitError(v float32, row int, tensor string) error {
	if !rows.Finite(v) {
		return notFinite(tensor, v, row)
	}
	lo, hi, integers := in.limits()
	want := fmt.Sprintf("numbers from %.0f to %.0f", lo, hi)
	if integers {
		want = "whole " + want
	}
	return fmt.Errorf("row %d (counted from 0) of the %s holds %g; the model takes %s, which are %s", row, tensor, v, onnx.DTypeName(in.elemType), want)
}

func notFinite(what string, v float32, row int) error {
	name := "an infinity"
	if v != v {
		name = "NaN"
	}
	return fmt.Errorf("row %d (counted from 0) of the %s holds %s", row, what, name)
}
