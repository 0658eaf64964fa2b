package autodiff

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// interpolation is the matrix (sizes of the output × of the input) that
// resizes an axis.
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
	attrs := r.attrs
	inputs := []string{eye, "", ""}
	if r.sizes != "" {
		inputs = append(inputs, c.joined(c.ints(1, 1), c.node("Slice", r.sizes, one, at), size))
	} else {
		scale := c.node("Slice", r.scales, one, at)
		same := c.constant([]float32{1})
		inputs[2] = c.nodeWith("Concat", []string{same, same, scale, same}, onnx.Attr("axis", 0))
	}
	if r.legacy {
		// The runtime's nearest neighbour of that time is the one above where
		// an axis shrinks.
		nearest := "floor"
		if r.scaleOf != nil && r.scaleOf[place] < 1 {
			nearest = "ceil"
		}
		attrs = []*pb.AttributeProto{onnx.Attr("mode", r.mode),
			onnx.Attr("coordinate_transformation_mode", "asymmetric"), onnx.Attr("nearest_mode", nearest)}
	}
	return c.castTo(c.node("Squeeze", c.nodeWith("Resize", inputs, attrs...), c.ints(0, 1)), x)
}

// multiplyAlong multiplies the transpose of a matrix to an axis.
func (c *call) multiplyAlong(t, matrix string, axis int64, rank int) string {
	if int(axis) == rank-1 {
		return c.node("MatMul", t, matrix)
	}
	matrix = c.node("Transpose", matrix)
	if int(axis) == rank-2 {
		return c.node("MatMul", matrix, t)
	}
	// The axes behind take part as columns.
	columns := make([]int64, axis+2)
	columns[axis+1] = -1
	rest := c.dimsOf(t, int(axis)+1, rank)
	t = c.node("MatMul", matrix, c.node("Reshape", t, c.ints(columns...)))
	return c.node("Reshape", t, c.joined(c.dimsOf(t, 0, int(axis)+1), rest))
}
