package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// resizeNode holds the inputs and attributes of a Resize.
type resizeNode struct {
	scales, sizes string // names of the inputs, at least one of which is ""
	// constScales and constSizes are the values of the inputs, or nil if they are not
	// constant.
	constScales []float32
	constSizes  []int64
	axes        []int64 // axes that scales and sizes refer to
	attrs       []*pb.AttributeProto
	mode        string
}

// gradResize is the rule of Resize. Interpolation is linear in x and separate for each
// axis, so it is a product with a matrix along each axis. To obtain the matrix, the runtime
// resizes an identity matrix.
func gradResize(c *call) {
	x := c.input(0)
	rank, ok := c.types.get(x).rank()
	if !ok || rank < 3 {
		c.fail("the rank of %q is not known to be 3 or more", x)
		return
	}
	r, ok := c.readResize(rank)
	if !ok {
		return
	}
	if c.needsGradient(1) || c.needsGradient(2) {
		c.fail("its scales depend on what is differentiated")
		return
	}
	if factors, ok := r.repeatFactors(c.types.get(x)); ok {
		area := int64(1)
		for _, f := range factors {
			area *= f
		}
		mean := c.nodeWith("AveragePool", []string{c.upstream(0)}, onnx.Attr("kernel_shape", factors), onnx.Attr("strides", factors))
		c.add(0, c.node("Mul", mean, c.scalar(float64(area), x)))
		return
	}
	dx := c.upstream(0)
	for index, axis := range slices.Backward(r.axes) {
		if !r.keepsAxis(index, c.types.get(x)) {
			dx = c.multiplyAlong(dx, c.interpolationMatrix(r, index), axis, rank)
		}
	}
	c.add(0, dx)
}

// readResize reads the inputs and attributes of the node. rank is the number of axes of x.
func (c *call) readResize(rank int) (resizeNode, bool) {
	r := resizeNode{
		scales: c.input(2), sizes: c.input(3),
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
		r.constSizes, _ = c.types.constInts(r.sizes)
	} else {
		r.constScales, _ = c.types.constFloats(r.scales)
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
	if r.constScales != nil && len(r.constScales) != len(r.axes) || r.constSizes != nil && len(r.constSizes) != len(r.axes) {
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

// coordinateMode returns the attribute that selects how coordinates of the output are
// mapped to coordinates of x.
func (r *resizeNode) coordinateMode() string {
	for _, a := range r.attrs {
		if a.GetName() == "coordinate_transformation_mode" {
			return string(a.GetS())
		}
	}
	return "half_pixel"
}

// keepsAxis reports whether the axis with the given index in r.axes is not resized. In the
// mode tf_half_pixel_for_nn, or if the size of the output is known only at run time, only
// the axes of rows and channels count as not resized.
func (r *resizeNode) keepsAxis(index int, x tensorType) bool {
	if r.coordinateMode() == "tf_half_pixel_for_nn" {
		return r.axes[index] < 2
	}
	if r.constScales != nil {
		return r.constScales[index] == 1
	}
	if r.constSizes != nil {
		d, _ := x.dim(r.axes[index])
		return d.n == r.constSizes[index]
	}
	return r.axes[index] < 2
}

// repeatFactors returns, for each spatial axis, how often the node repeats each element. It
// returns false if the node does more than repeat elements, if this is not known before the
// graph runs, or if x is neither float nor double.
func (r *resizeNode) repeatFactors(x tensorType) ([]int64, bool) {
	if r.mode != "nearest" || x.elem != pb.TensorProto_FLOAT && x.elem != pb.TensorProto_DOUBLE || !r.repeatsEvenly() {
		return nil, false
	}
	factors := slices.Repeat([]int64{1}, len(x.dims))
	for index, axis := range r.axes {
		d, _ := x.dim(axis)
		switch {
		case r.constScales != nil && r.constScales[index] >= 1 && r.constScales[index] == float32(int64(r.constScales[index])):
			factors[axis] = int64(r.constScales[index])
		case r.constSizes != nil && d.n > 0 && r.constSizes[index]%d.n == 0:
			factors[axis] = r.constSizes[index] / d.n
		case axis < 2 && r.constScales == nil && r.keepsAxis(index, x):
		default:
			return nil, false
		}
	}
	return factors[2:], factors[0] == 1 && factors[1] == 1
}

// repeatsEvenly reports whether, in nearest mode, an integer scale repeats each element
// equally often.
func (r *resizeNode) repeatsEvenly() bool {
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
	switch r.coordinateMode() {
	case "asymmetric":
		return nearest == "floor"
	case "half_pixel", "pytorch_half_pixel":
		return nearest == "round_prefer_floor" || nearest == "round_prefer_ceil"
	}
	return false
}

// interpolationMatrix returns the matrix (output size × input size) that resizes an axis.
func (c *call) interpolationMatrix(r resizeNode, index int) string {
	x, axis := c.input(0), int(r.axes[index])
	size := c.shapeRange(x, axis, axis+1)
	square := c.nodeWith("ConstantOfShape", []string{c.concatInts(size, size)}, onnx.Attr("value", onnx.Tensor([]float32{0})))
	elem := pb.TensorProto_FLOAT
	if c.types.get(x).elem == pb.TensorProto_DOUBLE {
		elem = pb.TensorProto_DOUBLE
	}
	eye := c.node("Reshape", c.nodeWith("EyeLike", []string{square}, onnx.Attr("dtype", elem)), c.concatInts(c.ints(1, 1), size, size))
	start, end := c.ints(int64(index)), c.ints(int64(index)+1)
	inputs := []string{eye, "", ""}
	if r.sizes != "" {
		inputs = append(inputs, c.concatInts(c.ints(1, 1), c.node("Slice", r.sizes, start, end), size))
	} else {
		scale := c.node("Slice", r.scales, start, end)
		one := c.constant([]float32{1})
		inputs[2] = c.nodeWith("Concat", []string{one, one, scale, one}, onnx.Attr("axis", 0))
	}
	return c.castTo(c.node("Squeeze", c.nodeWith("Resize", inputs, r.attrs...), c.ints(0, 1)), x)
}

// multiplyAlong multiplies the tensor t along an axis by the transpose of a matrix.
func (c *call) multiplyAlong(t, matrix string, axis int64, rank int) string {
	if int(axis) == rank-1 {
		return c.node("MatMul", t, matrix)
	}
	matrix = c.node("Transpose", matrix)
	if int(axis) == rank-2 {
		return c.node("MatMul", matrix, t)
	}
	// Flatten the later axes to columns of a matrix.
	columns := make([]int64, axis+2)
	columns[axis+1] = -1
	rest := c.shapeRange(t, int(axis)+1, rank)
	t = c.node("MatMul", matrix, c.node("Reshape", t, c.ints(columns...)))
	return c.node("Reshape", t, c.concatInts(c.shapeRange(t, 0, int(axis)+1), rest))
}
