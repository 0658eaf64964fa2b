package featurize

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/preprocess"
)

// input is what the network wants to be fed.
type input struct {
	name string // in the model
	feed string // in the edited graph
	elem int32
	dims []int // with the batch first; −1 varies; nil is unknown
}

func findInput(g *onnx.Graph) (input, error) {
	list := g.Inputs()
	if len(list) != 1 {
		names := make([]string, len(list))
		for i, v := range list {
			names[i] = strconv.Quote(v.GetName())
		}
		return input{}, fmt.Errorf("the model has %d inputs (%s); only models with one input can be run", len(list), strings.Join(names, ", "))
	}
	v := list[0]
	t := v.GetType().GetTensorType()
	in := input{name: v.GetName(), feed: v.GetName(), elem: t.GetElemType()}
	if t == nil {
		return in, fmt.Errorf("the model's input %q is not a tensor", in.name)
	}
	switch pb.TensorProto_DataType(in.elem) {
	case pb.TensorProto_FLOAT:
	case pb.TensorProto_DOUBLE, pb.TensorProto_FLOAT16, pb.TensorProto_BFLOAT16,
		pb.TensorProto_UINT8, pb.TensorProto_INT8, pb.TensorProto_INT32, pb.TensorProto_INT64:
		in.feed = inputName
	default:
		return in, fmt.Errorf("the model's input %q holds %s, which cannot be fed", in.name, onnx.DTypeName(in.elem))
	}
	if t.GetShape() != nil {
		in.dims = []int{}
		for _, d := range shapeOf(v) {
			in.dims = append(in.dims, int(d))
		}
		if len(in.dims) == 0 {
			return in, fmt.Errorf("the model's input %q is a scalar: it has no axis for rows", in.name)
		}
		if floatProduct(in.dims) > maxRun {
			shape := times(in.dims)
			if in.dims[0] > 0 {
				shape = strconv.Itoa(in.dims[0]) + strings.TrimPrefix(shape, "n")
			}
			return in, fmt.Errorf("the model's input %q of %s is more than the %d GiB that a run may take", in.name, shape, 4*maxRun>>30)
		}
	}
	return in, nil
}

// shapeOf returns a declared shape, −1 for what varies, or nil.
func shapeOf(v *pb.ValueInfoProto) []int64 { return onnx.Shape(v, 1) }

func (in input) fixedBatch() int {
	if len(in.dims) > 0 && in.dims[0] > 0 {
		return in.dims[0]
	}
	return 0
}

// layout says where the channels of an image input are.
func (in input) layout() preprocess.Layout {
	if len(in.dims) != 4 {
		return ""
	}
	channels := func(d int) bool { return d == 1 || d == 3 || d == 4 }
	switch {
	case channels(in.dims[1]):
		return preprocess.NCHW
	case channels(in.dims[3]):
		return preprocess.NHWC
	}
	return ""
}

// check says whether rows of a shape (the batch first) fit.
func (in input) check(shape []int) error {
	if in.fits(shape) {
		return nil
	}
	hint := ""
	if len(shape) == 4 && in.fits([]int{shape[0], shape[2], shape[3], shape[1]}) {
		hint = ": move the channels to the last axis"
	} else if len(shape) == 4 && in.fits([]int{shape[0], shape[3], shape[1], shape[2]}) {
		hint = ": move the channels to the second axis"
	}
	return fmt.Errorf("the model's input %q takes %s of %s, the rows given are %s of float32%s",
		in.name, times(in.dims), onnx.DTypeName(in.elem), times(shape), hint)
}

func (in input) fits(shape []int) bool {
	if in.dims == nil {
		return true
	}
	ok := len(shape) == len(in.dims)
	for i := 1; ok && i < len(shape); i++ {
		ok = in.dims[i] < 0 || in.dims[i] == shape[i]
	}
	return ok
}

// times writes a shape as n×3×32×32.
func times(dims []int) string {
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

// checkValues says which row holds a value that the model cannot be fed;
// first is the number of the first row.
func (in input) checkValues(data []float32, width, first int) error {
	lo, hi, whole := float32(0), float32(0), true
	switch pb.TensorProto_DataType(in.elem) {
	case pb.TensorProto_UINT8:
		hi = 255
	case pb.TensorProto_INT8:
		lo, hi = -128, 127
	case pb.TensorProto_INT32, pb.TensorProto_INT64:
		lo, hi = -1<<31, 1<<31-128 // the float32 next below 2³¹
	case pb.TensorProto_FLOAT16:
		lo, hi, whole = -65504, 65504, false
	default:
		if i := rows.FirstNotFinite(data); i >= 0 {
			return notFinite("input", data[i], first+i/width)
		}
		return nil
	}
	for i, v := range data {
		if !rows.Finite(v) {
			return notFinite("input", v, first+i/width)
		}
		if v < lo || v > hi || whole && v != float32(int64(v)) {
			want := fmt.Sprintf("numbers from %g to %g", lo, hi)
			if whole {
				want = "whole " + want
			}
			return fmt.Errorf("row %d (counted from 0) of the input holds %g; the model takes %s, which are %s", first+i/width, v, onnx.DTypeName(in.elem), want)
		}
	}
	return nil
}

func notFinite(what string, v float32, row int) error {
	name := "an infinity"
	if v != v {
		name = "NaN"
	}
	return fmt.Errorf("row %d (counted from 0) of the %s holds %s", row, what, name)
}
