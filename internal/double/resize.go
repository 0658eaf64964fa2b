package double

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// lowerResize resizes one axis at a time: the nearest elements are gathered,
// and interpolation is a product with a matrix. How many elements there will
// be, and which are the nearest, is what the runtime says of an identity matrix
// in single precision; the weights are computed in double precision.
func lowerResize(s *site) string {
	x := s.in(0)
	dims, ok := s.dims(x)
	if !ok || len(dims) < 3 {
		return s.fail("the rank of %q is not known to be 3 or more", x)
	}
	mode := onnx.AttributeString(s.n, "mode", "nearest")
	coordinates := onnx.AttributeString(s.n, "coordinate_transformation_mode", "half_pixel")
	switch {
	case s.Opset() < 11:
		return s.fail("its operator set is %d, 11 is needed", s.Opset())
	case coordinates == "tf_crop_and_resize":
		return s.fail("it crops")
	case s.attrInt("antialias", 0) != 0:
		return s.fail("it removes aliases")
	case onnx.AttributeString(s.n, "keep_aspect_ratio_policy", "stretch") != "stretch":
		return s.fail("it keeps the aspect ratio")
	}
	axes := onnx.AttributeInts(s.n, "axes")
	if axes == nil {
		for i := range dims {
			axes = append(axes, int64(i))
		}
	}
	for place, axis := range axes {
		if axis < 0 {
			axis += int64(len(dims))
		}
		if s.keeps(place, axis, dims) {
			continue
		}
		a := s.resized(x, dims, place, axis)
		switch mode {
		case "nearest":
			x = s.Node("Gather", []string{x, s.reshape(s.Node("ArgMax", []string{a.sample}, onnx.Attr("axis", 3)), sizes(-1)...)}, onnx.Attr("axis", axis))
		case "linear":
			x = s.multiplyAlong(x, s.linear(a, coordinates), axis, len(dims))
		case "cubic":
			x = s.multiplyAlong(x, s.cubic(a, coordinates), axis, len(dims))
		default:
			return s.fail("its mode is %q", mode)
		}
	}
	return x
}

// keeps says that an axis is known not to be resized. Rows and channels are
// taken not to be where nothing is known.
func (s *site) keeps(place int, axis int64, dims []int64) bool {
	if t, ok := s.index.Const(s.in(2)); ok && s.in(2) != "" {
		if v, _, err := onnx.Float32s(t, ""); err == nil && place < len(v) {
			return v[place] == 1
		}
	}
	if t, ok := s.index.Const(s.in(3)); ok && s.in(3) != "" {
		if v, _, err := onnx.Int64s(t, ""); err == nil && place < len(v) {
			return dims[axis] == v[place]
		}
	}
	return axis < 2
}

// resizedAxis is an axis that is resized: its sizes before and after, and their
// ratio, as double scalars. sample is an identity matrix resized along its
// third axis by the runtime, 1×1×after×before in single precision.
type resizedAxis struct{ before, after, scale, sample string }

func (s *site) resized(x string, dims []int64, place int, axis int64) resizedAxis {
	n := s.shape(s.sizesOf(x, dims, int(axis), int(axis)+1)...)
	square := s.shape(size{tensor: n}, size{tensor: n})
	eye := s.Node("EyeLike", []string{s.Node("ConstantOfShape", []string{square}, onnx.Attr("value", onnx.Tensor([]float32{0})))})
	eye = s.reshape(eye, size{n: 1}, size{n: 1}, size{tensor: n}, size{tensor: n})
	one, at := s.ints(int64(place)), s.ints(int64(place)+1)
	none := ""
	if s.Opset() < 13 { // where no input may be left out
		none = s.Const([]float32{})
	}
	inputs := []string{eye, none, none}
	sized := s.in(3) != ""
	var factor string
	if sized {
		inputs = append(inputs, s.shape(size{n: 1}, size{n: 1}, size{tensor: s.node("Slice", s.in(3), one, at)}, size{tensor: n}))
	} else {
		factor = s.node("Slice", s.in(2), one, at)
		same := s.Const([]float32{1})
		inputs[2] = s.concat(0, []string{same, same, factor, same})
	}
	attrs := slices.DeleteFunc(slices.Clone(s.n.Attribute), func(a *pb.AttributeProto) bool {
		return a.GetName() == "axes" || a.GetName() == "keep_aspect_ratio_policy"
	})
	a := resizedAxis{sample: s.Node("Resize", inputs, attrs...)}
	real := func(t string) string {
		return s.squeeze(s.Node("Cast", []string{t}, onnx.Attr("to", pb.TensorProto_DOUBLE)), 0)
	}
	a.before = real(n)
	a.after = real(s.node("Slice", s.node("Shape", a.sample), s.ints(2), s.ints(3)))
	if sized {
		a.scale = s.div(a.after, a.before)
	} else {
		a.scale = real(factor)
	}
	return a
}

// origin is where each element of a resized axis comes from, after×1.
func (s *site) origin(a resizedAxis, coordinates string) string {
	zero, one := s.number(0), s.number(1)
	r := s.unsqueeze(s.node("Range", zero, a.after, one), 1)
	centre := s.div(s.plus(0.5, r), a.scale)
	switch coordinates {
	case "asymmetric":
		return s.div(r, a.scale)
	case "align_corners":
		return s.div(s.mul(r, s.sub(a.before, one)), s.node("Max", s.sub(a.after, one), one))
	case "tf_half_pixel_for_nn":
		return centre
	case "pytorch_half_pixel":
		return s.where(s.node("Greater", a.after, one), s.plus(-0.5, centre), zero)
	case "half_pixel_symmetric":
		adjustment := s.div(a.after, s.mul(a.scale, a.before))
		offset := s.mul(s.times(0.5, a.before), s.sub(one, adjustment))
		return s.add(offset, s.plus(-0.5, centre))
	}
	return s.plus(-0.5, centre)
}

// linear is the matrix after×before of linear interpolation: hats around the
// origins, which stay within the axis.
func (s *site) linear(a resizedAxis, coordinates string) string {
	zero, one := s.number(0), s.number(1)
	last := s.sub(a.before, one)
	at := s.node("Max", s.node("Min", s.origin(a, coordinates), last), zero)
	column := s.node("Range", zero, a.before, one)
	return s.node("Max", s.sub(one, s.node("Abs", s.sub(at, column))), zero)
}

// cubic is that of cubic convolution over the four elements around an origin,
// of which those beyond the ends are the ends again, or are left out. See
// R. Keys, Cubic convolution interpolation for digital image processing, IEEE
// TASSP 29, 1981.
func (s *site) cubic(a resizedAxis, coordinates string) string {
	zero, one := s.number(0), s.number(1)
	last := s.sub(a.before, one)
	at := s.origin(a, coordinates)
	floor := s.node("Floor", at)
	column := s.node("Range", zero, a.before, one)
	c := s.attrFloat("cubic_coeff_a", -0.75)
	outside := s.attrInt("exclude_outside", 0) != 0
	sum := ""
	for k := -1.0; k <= 2; k++ {
		place := s.plus(k, floor)
		t := s.node("Abs", s.sub(at, place))
		var w string
		if k == 0 || k == 1 { // ((c+2)t − (c+3))t² + 1
			w = s.plus(1, s.mul(s.plus(-c-3, s.times(c+2, t)), s.mul(t, t)))
		} else { // ((ct − 5c)t + 8c)t − 4c
			w = s.plus(-4*c, s.mul(t, s.plus(8*c, s.mul(t, s.plus(-5*c, s.times(c, t))))))
		}
		if !outside {
			place = s.node("Max", s.node("Min", place, last), zero)
		}
		w = s.where(s.node("Equal", place, column), w, zero)
		if sum != "" {
			w = s.add(sum, w)
		}
		sum = w
	}
	if outside {
		sum = s.div(sum, s.sum(sum, 1))
	}
	return sum
}

// multiplyAlong multiplies a matrix to an axis.
func (s *site) multiplyAlong(x, matrix string, axis int64, rank int) string {
	last := int64(rank) - 1
	switch axis {
	case last:
		return s.node("MatMul", x, s.transpose(matrix, 1, 0))
	case last - 1:
		return s.node("MatMul", matrix, x)
	}
	perm := make([]int64, rank)
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[axis], perm[last-1] = last-1, axis
	return s.transpose(s.node("MatMul", matrix, s.transpose(x, perm...)), perm...)
}
