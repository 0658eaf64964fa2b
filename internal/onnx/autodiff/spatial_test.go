package autodiff

import (
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// kernel returns a function that adds a constant kernel of small, different numbers.
func kernel(dims ...int64) func(*onnx.Builder) string {
	return func(b *onnx.Builder) string {
		v := make([]float32, size(dims))
		for i := range v {
			v[i] = float32(0.3 * math.Sin(float64(3*i+1)))
		}
		return b.Const(v, dims...)
	}
}

// conv returns a function that appends a Conv or ConvTranspose with constant weights.
func conv(name string, w func(*onnx.Builder) string, attrs ...*pb.AttributeProto) func(*onnx.Builder, []string) string {
	return func(b *onnx.Builder, x []string) string { return b.Node(name, []string{x[0], w(b)}, attrs...) }
}

func attrList(attrs ...any) []*pb.AttributeProto {
	var out []*pb.AttributeProto
	for i := 0; i < len(attrs); i += 2 {
		out = append(out, onnx.Attr(attrs[i].(string), attrs[i+1]))
	}
	return out
}

// omittedInput returns the name of an omitted input of Resize. Before operator set 13, an
// omitted input was an empty tensor.
func omittedInput(b *onnx.Builder) string {
	if b.Opset() < 13 {
		return b.Const([]float32{})
	}
	return ""
}

// resize returns a function that appends a Resize by scales or to sizes.
func resize(scales []float32, sizes []int64, attrs ...any) func(*onnx.Builder, []string) string {
	return func(b *onnx.Builder, x []string) string {
		in := []string{x[0], omittedInput(b), omittedInput(b)}
		if scales != nil {
			in[2] = b.Const(scales)
		} else {
			in = append(in, b.Const(sizes))
		}
		return b.Node("Resize", in, attrList(attrs...)...)
	}
}

// resizeTo returns a function that appends a Resize of the last two axes to known sizes. It
// has the form that PyTorch exports if the number of rows is unknown.
func resizeTo(h, w int64, attrs ...any) func(*onnx.Builder, []string) string {
	return func(b *onnx.Builder, x []string) string {
		rows := b.Node("Slice", []string{b.Node("Shape", x[:1]), b.Const(ints(0)), b.Const(ints(2))})
		sizes := b.Node("Concat", []string{rows, b.Const(ints(h, w))}, onnx.Attr("axis", 0))
		return b.Node("Resize", []string{x[0], omittedInput(b), omittedInput(b), sizes}, attrList(attrs...)...)
	}
}

var (
	line   = [][]int64{{2, 2, 7}}
	plane  = [][]int64{{1, 2, 5, 6}}
	planes = [][]int64{{1, 4, 4, 5}}
	volume = [][]int64{{1, 1, 3, 4, 3}}
)

var spatialCases = slices.Concat(convolutionCases, poolingCases, resizingCases)

var convolutionCases = []graphCase{
	{name: "Conv", shapes: plane, single: true, build: conv("Conv", kernel(3, 2, 3, 3), attrList("pads", ints(1, 1, 1, 1))...)},
	{name: "Conv many channels", shapes: [][]int64{{1, 9, 3, 3}}, single: true,
		build: conv("Conv", kernel(3, 9, 3, 2), attrList("pads", ints(1, 0, 0, 1))...)},
	{name: "Conv of a line", shapes: line, single: true, build: conv("Conv", kernel(3, 2, 3), attrList("strides", ints(2), "pads", ints(2, 1))...)},
	{name: "Conv of a volume", shapes: volume, single: true,
		build: conv("Conv", kernel(3, 1, 2, 3, 1), attrList("strides", ints(1, 2, 1), "pads", ints(1, 0, 0, 0, 1, 0))...)},
	{name: "Conv strides", shapes: plane, single: true, build: conv("Conv", kernel(3, 2, 3, 2), attrList("strides", ints(2, 3), "pads", ints(1, 0, 1, 2))...)},
	{name: "Conv 1×1 strides", shapes: plane, single: true, build: conv("Conv", kernel(3, 2, 1, 1), attrList("strides", ints(2, 2))...)},
	{name: "Conv dilations", shapes: plane, single: true,
		build: conv("Conv", kernel(3, 2, 2, 3), attrList("dilations", ints(3, 2), "pads", ints(1, 2, 2, 1))...)},
	{name: "Conv dilations strides", shapes: plane, single: true,
		build: conv("Conv", kernel(3, 2, 2, 2), attrList("dilations", ints(2, 3), "strides", ints(2, 2), "pads", ints(1, 1, 1, 1))...)},
	{name: "Conv wide padding", shapes: plane, single: true, build: conv("Conv", kernel(3, 2, 2, 2), attrList("pads", ints(3, 0, 1, 2))...)},
	{name: "Conv groups", shapes: planes, single: true, build: conv("Conv", kernel(6, 2, 3, 3), attrList("group", 2, "pads", ints(1, 1, 1, 1))...)},
	{name: "Conv groups strides", shapes: planes, single: true,
		build: conv("Conv", kernel(2, 2, 3, 3), attrList("group", 2, "strides", ints(2, 2), "pads", ints(1, 1, 1, 1))...)},
	{name: "Conv depthwise", shapes: planes, single: true, build: conv("Conv", kernel(4, 1, 3, 3), attrList("group", 4, "pads", ints(1, 1, 1, 1))...)},
	{name: "Conv depthwise twice", shapes: planes, single: true, build: conv("Conv", kernel(8, 1, 3, 3), attrList("group", 4, "pads", ints(1, 1, 1, 1))...)},
	{name: "Conv SAME_UPPER", shapes: plane, single: true, build: conv("Conv", kernel(3, 2, 2, 3), attrList("auto_pad", "SAME_UPPER")...)},
	{name: "Conv SAME_UPPER strides", shapes: plane, single: true,
		build: conv("Conv", kernel(3, 2, 2, 4), attrList("auto_pad", "SAME_UPPER", "strides", ints(2, 3))...)},
	{name: "Conv SAME_LOWER strides", shapes: plane, single: true,
		build: conv("Conv", kernel(3, 2, 2, 4), attrList("auto_pad", "SAME_LOWER", "strides", ints(2, 3))...)},
	{name: "Conv SAME_LOWER", shapes: plane, single: true, build: conv("Conv", kernel(3, 2, 2, 4), attrList("auto_pad", "SAME_LOWER")...)},
	{name: "Conv VALID", shapes: plane, single: true, build: conv("Conv", kernel(3, 2, 2, 3), attrList("auto_pad", "VALID", "strides", ints(2, 2))...)},
	{name: "Conv by weights and bias", shapes: [][]int64{{2, 2, 4, 5}, {3, 2, 3, 2}, {3}}, low: -1, high: 1, single: true,
		build: op("Conv", attrList("kernel_shape", ints(3, 2), "pads", ints(1, 1, 1, 0))...)},
	{name: "Conv by weights strides", shapes: [][]int64{{2, 2, 5, 4}, {3, 2, 3, 2}}, low: -1, high: 1, single: true,
		build: op("Conv", attrList("kernel_shape", ints(3, 2), "strides", ints(3, 2), "dilations", ints(1, 2), "pads", ints(1, 1, 1, 1))...)},
	{name: "Conv by weights groups", shapes: [][]int64{{2, 4, 3, 4}, {2, 2, 2, 2}}, low: -1, high: 1, single: true,
		build: op("Conv", attrList("kernel_shape", ints(2, 2), "group", 2, "pads", ints(1, 0, 0, 1))...)},
	{name: "Conv by weights SAME_UPPER", shapes: [][]int64{{2, 1, 3, 4}, {2, 1, 2, 3}}, low: -1, high: 1, single: true,
		build: op("Conv", attrList("kernel_shape", ints(2, 3), "auto_pad", "SAME_UPPER", "strides", ints(2, 2))...)},

	{name: "ConvTranspose", shapes: plane, single: true, build: conv("ConvTranspose", kernel(2, 3, 3, 3), attrList("pads", ints(1, 1, 1, 0))...)},
	{name: "ConvTranspose strides", shapes: plane, single: true,
		build: conv("ConvTranspose", kernel(2, 3, 3, 2), attrList("strides", ints(2, 3), "pads", ints(1, 0, 1, 0), "output_padding", ints(1, 2))...)},
	{name: "ConvTranspose dilations", shapes: plane, single: true,
		build: conv("ConvTranspose", kernel(2, 3, 2, 2), attrList("strides", ints(2, 1), "dilations", ints(1, 3), "pads", ints(0, 2, 1, 0))...)},
	{name: "ConvTranspose groups", shapes: planes, single: true,
		build: conv("ConvTranspose", kernel(4, 3, 3, 2), attrList("group", 2, "strides", ints(2, 2))...)},
	{name: "ConvTranspose of a line", shapes: line, single: true, build: conv("ConvTranspose", kernel(2, 3, 4), attrList("strides", ints(2), "pads", ints(1, 1))...)},
	{name: "ConvTranspose of a volume", shapes: volume, single: true, build: conv("ConvTranspose", kernel(1, 2, 1, 2, 2), attrList("strides", ints(1, 2, 1))...)},
	{name: "ConvTranspose SAME_UPPER", shapes: plane, single: true,
		build: conv("ConvTranspose", kernel(2, 3, 4, 3), attrList("strides", ints(2, 2), "auto_pad", "SAME_UPPER")...)},
	{name: "ConvTranspose SAME_LOWER", shapes: plane, single: true,
		build: conv("ConvTranspose", kernel(2, 3, 3, 4), attrList("strides", ints(2, 2), "auto_pad", "SAME_LOWER")...)},
	{name: "ConvTranspose by weights and bias", shapes: [][]int64{{2, 2, 3, 2}, {2, 2, 2, 3}, {2}}, low: -1, high: 1, single: true,
		build: op("ConvTranspose", attrList("kernel_shape", ints(2, 3), "strides", ints(2, 1), "output_padding", ints(1, 0))...)},
}

var poolingCases = []graphCase{
	{name: "MaxPool", shapes: plane, build: op("MaxPool", attrList("kernel_shape", ints(2, 2), "strides", ints(2, 2))...)},
	{name: "MaxPool overlapping", shapes: plane, build: op("MaxPool", attrList("kernel_shape", ints(3, 3), "strides", ints(2, 2), "pads", ints(1, 1, 1, 1))...)},
	{name: "MaxPool of opset 13", opset: 13, shapes: plane,
		build: op("MaxPool", attrList("kernel_shape", ints(3, 3), "strides", ints(2, 1), "pads", ints(1, 0, 1, 2))...)},
	{name: "MaxPool ceil_mode", shapes: plane, build: op("MaxPool", attrList("kernel_shape", ints(2, 3), "strides", ints(2, 2), "ceil_mode", 1)...)},
	{name: "MaxPool dilations", shapes: plane, build: op("MaxPool", attrList("kernel_shape", ints(2, 2), "dilations", ints(3, 2))...)},
	{name: "MaxPool SAME_UPPER", shapes: plane, build: op("MaxPool", attrList("kernel_shape", ints(2, 2), "strides", ints(2, 1), "auto_pad", "SAME_UPPER")...)},
	{name: "MaxPool of a line", shapes: line, build: op("MaxPool", attrList("kernel_shape", ints(3))...)},
	{name: "MaxPool of a volume", shapes: volume, build: op("MaxPool", attrList("kernel_shape", ints(2, 2, 2))...)},

	{name: "AveragePool", shapes: plane, single: true, build: op("AveragePool", attrList("kernel_shape", ints(2, 3))...)},
	{name: "AveragePool strides", shapes: plane, single: true, build: op("AveragePool", attrList("kernel_shape", ints(2, 2), "strides", ints(2, 2))...)},
	{name: "AveragePool pads", shapes: plane, single: true,
		build: op("AveragePool", attrList("kernel_shape", ints(3, 3), "strides", ints(2, 1), "pads", ints(1, 1, 0, 1))...)},
	{name: "AveragePool count_include_pad", shapes: plane, single: true,
		build: op("AveragePool", attrList("kernel_shape", ints(3, 3), "strides", ints(1, 2), "pads", ints(1, 0, 1, 1), "count_include_pad", 1)...)},
	{name: "AveragePool stride 1", shapes: plane, single: true,
		build: op("AveragePool", attrList("kernel_shape", ints(3, 3), "pads", ints(1, 1, 1, 1))...)},
	{name: "AveragePool stride 1 count_include_pad", shapes: plane, single: true,
		build: op("AveragePool", attrList("kernel_shape", ints(3, 3), "pads", ints(1, 1, 1, 1), "count_include_pad", 1)...)},
	{name: "AveragePool ceil_mode", opset: 19, shapes: plane, single: true,
		build: op("AveragePool", attrList("kernel_shape", ints(3, 3), "strides", ints(2, 2), "ceil_mode", 1, "pads", ints(0, 1, 1, 0))...)},
	{name: "AveragePool ceil_mode count_include_pad", opset: 19, shapes: plane, single: true,
		build: op("AveragePool", attrList("kernel_shape", ints(2, 3), "strides", ints(2, 2), "ceil_mode", 1, "pads", ints(0, 1, 0, 1), "count_include_pad", 1)...)},
	{name: "AveragePool dilations", opset: 19, shapes: plane, single: true,
		build: op("AveragePool", attrList("kernel_shape", ints(2, 2), "dilations", ints(2, 3), "pads", ints(1, 1, 1, 1))...)},
	{name: "AveragePool dilations strides", opset: 19, shapes: plane, single: true,
		build: op("AveragePool", attrList("kernel_shape", ints(2, 2), "dilations", ints(2, 3), "strides", ints(2, 2))...)},
	{name: "AveragePool SAME_UPPER", shapes: plane, single: true,
		build: op("AveragePool", attrList("kernel_shape", ints(2, 3), "strides", ints(2, 2), "auto_pad", "SAME_UPPER")...)},
	{name: "AveragePool SAME_LOWER count_include_pad", shapes: plane, single: true,
		build: op("AveragePool", attrList("kernel_shape", ints(2, 4), "strides", ints(2, 2), "auto_pad", "SAME_LOWER", "count_include_pad", 1)...)},
	{name: "AveragePool of a line", shapes: line, single: true, build: op("AveragePool", attrList("kernel_shape", ints(3), "strides", ints(2))...)},
	{name: "AveragePool of a volume", shapes: volume, single: true, build: op("AveragePool", attrList("kernel_shape", ints(2, 2, 1), "strides", ints(1, 2, 1))...)},

	{name: "GlobalAveragePool", shapes: plane, single: true, build: op("GlobalAveragePool")},
	{name: "GlobalMaxPool", shapes: plane, single: true, build: op("GlobalMaxPool")},
}

var resizingCases = []graphCase{
	{name: "DepthToSpace", shapes: [][]int64{{2, 8, 2, 3}}, build: op("DepthToSpace", attrList("blocksize", 2)...)},
	{name: "DepthToSpace CRD", shapes: [][]int64{{2, 8, 2, 3}}, build: op("DepthToSpace", attrList("blocksize", 2, "mode", "CRD")...)},
	{name: "SpaceToDepth", shapes: [][]int64{{2, 2, 4, 6}}, build: op("SpaceToDepth", attrList("blocksize", 2)...)},

	{name: "Resize nearest twice", shapes: plane, single: true,
		build: resize([]float32{1, 1, 2, 3}, nil, "coordinate_transformation_mode", "asymmetric", "nearest_mode", "floor")},
	{name: "Resize nearest half_pixel twice", shapes: plane, single: true, build: resize([]float32{1, 1, 2, 4}, nil)},
	{name: "Resize nearest of a line", shapes: line, single: true, build: resize([]float32{1, 1, 2}, nil)},
	{name: "Resize nearest of a volume", shapes: volume, single: true, build: resize([]float32{1, 1, 1, 2, 1.5}, nil)},
	{name: "Resize nearest by sizes", shapes: plane, single: true, build: resize(nil, ints(2, 2, 7, 4))},
	{name: "Resize nearest to sizes", shapes: plane, single: true, build: resizeTo(3, 12, "coordinate_transformation_mode", "asymmetric", "nearest_mode", "floor")},
	{name: "Resize nearest ceil", shapes: plane, single: true,
		build: resize([]float32{1, 1, 0.6, 1.5}, nil, "coordinate_transformation_mode", "align_corners", "nearest_mode", "ceil")},
	{name: "Resize nearest tf", shapes: plane, single: true,
		build: resize([]float32{1, 1, 1, 2}, nil, "coordinate_transformation_mode", "tf_half_pixel_for_nn", "nearest_mode", "floor")},
	{name: "Resize linear half_pixel", shapes: plane, single: true, build: resize([]float32{1, 1, 2, 1.5}, nil, "mode", "linear")},
	{name: "Resize linear smaller", shapes: plane, single: true, build: resize([]float32{1, 1, 0.6, 1}, nil, "mode", "linear")},
	{name: "Resize linear align_corners", shapes: plane, single: true,
		build: resizeTo(7, 9, "mode", "linear", "coordinate_transformation_mode", "align_corners")},
	{name: "Resize linear asymmetric", shapes: plane, single: true,
		build: resizeTo(8, 3, "mode", "linear", "coordinate_transformation_mode", "asymmetric")},
	{name: "Resize linear pytorch_half_pixel", shapes: plane, single: true,
		build: resizeTo(1, 9, "mode", "linear", "coordinate_transformation_mode", "pytorch_half_pixel")},
	{name: "Resize linear of a line", shapes: line, single: true, build: resize([]float32{1, 1, 2}, nil, "mode", "linear")},
	{name: "Resize linear of a volume", shapes: volume, single: true, build: resize([]float32{1, 1, 2, 1.5, 2}, nil, "mode", "linear")},
	{name: "Resize cubic", shapes: plane, single: true, build: resize([]float32{1, 1, 2, 1.5}, nil, "mode", "cubic")},
	{name: "Resize axes", opset: 18, shapes: plane, single: true, build: resize([]float32{1.5, 2}, nil, "mode", "linear", "axes", ints(3, 2))},
	{name: "Resize antialias", opset: 18, shapes: plane, single: true, build: resize([]float32{1, 1, 0.6, 0.5}, nil, "mode", "linear", "antialias", 1)},
}
