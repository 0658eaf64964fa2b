package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// resizing holds the inputs and attributes of a Resize.
type resizing struct {
	scales, sizes string // inputs, one of them ""
	// constant scales and sizes, or nil if unknown
	scaleOf []float32
	sizeOf  []int64
	axes    []int64 // the axes of scales and sizes
	attrs   []*pb.AttributeProto
	mode    string
}

// gradResize uses that interpolation is linear in x and separate for each axis. Its matrix
// along an axis is a resized identity matrix, which the runtime computes.
func gradResize(c *call) {
	x := c.in(0)
	rank, ok := c.types.of(x).rank()
	if !ok || rank < 3 {
		c.fail("the rank of %q is not known to be 3 or more", x)
		return
	}
	r, ok := c.resizing(rank)
	if !ok {
		return
	}
	if c.wants(1) || c.wants(2) {
		c.fail("its scales depend on what is differentiated")
		return
	}
	if factors, ok := r.repeats(c.types.of(x)); ok {
		area := int64(1)
		for _, f := range factors {
			area *= f
		}
		mean := c.nodeWith("AveragePool", []string{c.up(0)}, onnx.Attr("kernel_shape", factors), onnx.Attr("strides", factors))
		c.add(0, c.node("Mul", mean, c.scalar(float64(area), x)))
		return
	}
	dx := c.up(0)
	for place, axis := range slices.Backward(r.axes) {
		if !r.keeps(place, c.types.of(x)) {
			dx = c.multiplyAlong(dx, c.interpolation(r, place), axis, rank)
		}
	}
	c.add(0, dx)
}

// resizing reads the node.
func (c *call) resizing(rank int) (resizing, bool) {
	r := resizing{
		scales: c.in(2), sizes: c.in(3),
		mode: onnx.AttributeString(c.n, "mode", "nearest"),
	}
	switch {
	case onnx.AttributeString(c.n, "coordinate_transformation_mode", "") == "tf_crop_and_resize":
		c.fail("it crops")
		return r, false
	case onnx.AttributeString(c.n, "keep_aspect_ratio_policy", "stretch") != "stretch":
		c.fail("it keeps the aspect ratio")
		return r, false
	}
	if r.sizes != "" {
		r.scales = ""
		r.sizeOf, _ = c.types.intsOf(r.sizes)
	} else {
		r.scaleOf, _ = c.types.floatsOf(r.scales)
	}
	r.axes = onnx.AttributeInts(c.n, "axes")
	for i, a := range r.axes {
		if a < 0 {
			r.axes = slices.Clone(r.axes)
			r.axes[i] += int64(rank)
		}
	}
	for i := 0; onnx.Attribute(c.n, "axes") == nil && i < rank; i++ {
		r.axes = append(r.axes, int64(i))
	}
	if r.scaleOf != nil && len(r.scaleOf) != len(r.axes) || r.sizeOf != nil && len(r.sizeOf) != len(r.axes) {
		c.fail("it has not one scale or size per axis")
		return r, false
	}
	for _, a := range c.n.Attribute {
		switch a.GetName() {
		case "axes", "keep_aspect_ratio_policy":
		default:
			r.attrs = append(r.attrs, a)
		}
	}
	return r, true
}

// coordinates returns the mode that maps coordinates of the output to coordinates of x.
func (r *resizing) coordinates() string {
	for _, a := range r.attrs {
		if a.GetName() == "coordinate_transformation_mode" {
			return string(a.GetS())
		}
	}
	return "half_pixel"
}

// keeps reports whether an axis is not resized. If the output's size is known only at run time,
// this holds for rows and channels.
func (r *resizing) keeps(place int, x tensorType) bool {
	if r.coordinates() == "tf_half_pixel_for_nn" {
		return r.axes[place] < 2
	}
	if r.scaleOf != nil {
		return r.scaleOf[place] == 1
	}
	if r.sizeOf != nil {
		d, _ := x.dim(r.axes[place])
		return d.n == r.sizeOf[place]
	}
	return r.axes[place] < 2
}

// repeats returns how often each spatial axis repeats each element, if the node only repeats
// elements.
func (r *resizing) repeats(x tensorType) ([]int64, bool) {
	if r.mode != "nearest" || x.elem != pb.TensorProto_FLOAT && x.elem != pb.TensorProto_DOUBLE || !r.inBlocks() {
		return nil, false
	}
	factors := slices.Repeat([]int64{1}, len(x.dims))
	for place, axis := range r.axes {
		d, _ := x.dim(axis)
		switch {
		case r.scaleOf != nil && r.scaleOf[place] >= 1 && r.scaleOf[place] == float32(int64(r.scaleOf[place])):
			factors[axis] = int64(r.scaleOf[place])
		case r.sizeOf != nil && d.n > 0 && r.sizeOf[place]%d.n == 0:
			factors[axis] = r.sizeOf[place] / d.n
		case axis < 2 && r.scaleOf == nil && r.keeps(place, x):
		default:
			return nil, false
		}
	}
	return factors[2:], factors[0] == 1 && factors[1] == 1
}

// inBlocks reports whether an integer scale repeats each element equally often.
func (r *resizing) inBlocks() bool {
	nearest := "round_prefer_floor"
	for _, a := range r.attrs {
		switch a.GetName() {
		case "nearest_mode":
			nearest = string(a.GetS())
		case "antialias":
			if a.GetI() != 0 {
				return false
			}
		}
	}
	switch r.coordinates() {
	case "asymmetric":
		return nearest == "floor"
	case "half_pixel", "pytorch_half_pixel":
		return nearest == "round_prefer_floor" || nearest == "round_prefer_ceil"
	}
	return false
}

// interpolation returns the matrix (output size × input size) that resizes an axis.
func (c *call) interpolation(r resizing, place int) string {
	x, axis := c.in(0), int(r.axes[place])
	size := c.dimsOf(x, axis, axis+1)
	square := c.nodeWith("ConstantOfShape", []string{c.joined(size, size)}, onnx.Attr("value", onnx.Tensor([]float32{0})))
	elem := pb.TensorProto_FLOAT
	if c.types.of(x).elem == pb.TensorProto_DOUBLE {
		elem = pb.TensorProto_DOUBLE
	}
	eye := c.node("Reshape", c.nodeWith("EyeLike", []string{square}, onnx.Attr("dtype", elem)), c.joined(c.ints(1, 1), size, size))
	one, at := c.ints(int64(place)), c.ints(int64(place)+1)
	inputs := []string{eye, "", ""}
	if r.sizes != "" {
		inputs = append(inputs, c.joined(c.ints(1, 1), c.node("Slice", r.sizes, one, at), size))
	} else {
		scale := c.node("Slice", r.scales, one, at)
		same := c.constant([]float32{1})
		inputs[2] = c.nodeWith("Concat", []string{same, same, scale, same}, onnx.Attr("axis", 0))
	}
	return c.castTo(c.node("Squeeze", c.nodeWith("Resize", inputs, r.attrs...), c.ints(0, 1)), x)
}

// multiplyAlong multiplies an axis by the transpose of a matrix.
func (c *call) multiplyAlong(t, matrix string, axis int64, rank int) string {
	if int(axis) == rank-1 {
		return c.node("MatMul", t, matrix)
	}
	matrix = c.node("Transpose", matrix)
	if int(axis) == rank-2 {
		return c.node("MatMul", matrix, t)
	}
	// Later axes become columns.
	columns := make([]int64, axis+2)
	columns[axis+1] = -1
	rest := c.dimsOf(t, int(axis)+1, rank)
	t = c.node("MatMul", matrix, c.node("Reshape", t, c.ints(columns...)))
	return c.node("Reshape", t, c.joined(c.dimsOf(t, 0, int(axis)+1), rest))
}
