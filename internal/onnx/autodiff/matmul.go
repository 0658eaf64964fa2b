package autodiff

import "github.com/attach-uncertainty/attach/internal/onnx"

// gradMatMul is the rule of Y = AB, with the gradients dA = dY·Bᵀ and dB = Aᵀ·dY. It
// supports vectors, matrices, and stacks of matrices with broadcast leading axes.
func gradMatMul(c *call) { c.addProduct(c.input(0), c.input(1), c.upstream(0)) }

// addProduct adds the gradients of inputs 0 and 1 of a matrix product. a and b are the
// values of these inputs in the product.
func (c *call) addProduct(a, b, upstream string) {
	ra, knownA := c.types.get(a).rank()
	rb, knownB := c.types.get(b).rank()
	if !knownA || !knownB {
		c.fail("the rank of its inputs is not known")
		return
	}
	if ra == 1 && rb == 1 {
		if c.needsGradient(0) {
			c.add(0, c.node("Mul", upstream, b))
		}
		if c.needsGradient(1) {
			c.add(1, c.node("Mul", upstream, a))
		}
		return
	}
	// Treat a vector as a matrix with one row (a) or one column (b).
	left, right := a, b
	if ra == 1 {
		left = c.node("Unsqueeze", a, c.ints(0))
		upstream = c.node("Unsqueeze", upstream, c.ints(-2))
	}
	if rb == 1 {
		right = c.node("Unsqueeze", b, c.ints(1))
		upstream = c.node("Unsqueeze", upstream, c.ints(-1))
	}
	if c.needsGradient(0) {
		da := c.unbroadcast(c.node("MatMul", upstream, c.transpose(right)), left)
		c.add(0, c.reshapeLike(da, a))
	}
	if c.needsGradient(1) {
		var db string
		if ra > 2 && rb <= 2 {
			db = c.stackedProduct(left, upstream)
		} else {
			db = c.unbroadcast(c.node("MatMul", c.transpose(left), upstream), right)
		}
		c.add(1, c.reshapeLike(db, b))
	}
}

// stackedProduct computes Σ AᵀG over stacks of matrices A and G. It is a single product of
// two matrices that contain the rows of all matrices in the stack.
func (c *call) stackedProduct(a, g string) string {
	return c.node("MatMul", c.transpose(c.flattenRows(a)), c.flattenRows(g))
}

// flattenRows reshapes a stack of matrices to one matrix that contains all their rows.
func (c *call) flattenRows(x string) string {
	t := c.types.get(x)
	if w := t.dims[len(t.dims)-1]; w.known() {
		return c.node("Reshape", x, c.ints(-1, w.n))
	}
	width := c.node("Slice", c.node("Shape", x), c.ints(-1), c.ints(1<<31))
	return c.node("Reshape", x, c.nodeWith("Concat", []string{c.ints(-1), width}, onnx.Attr("axis", 0)))
}

// gradGemm is the rule of Y = αA′B′ + βC, in which A′ and B′ are A and B or their
// transposes.
func gradGemm(c *call) {
	a, b, upstream := c.input(0), c.input(1), c.upstream(0)
	alpha := onnx.AttributeFloat(c.n, "alpha", 1)
	beta := onnx.AttributeFloat(c.n, "beta", 1)
	ta, tb := c.attrInt("transA", 0) != 0, c.attrInt("transB", 0) != 0
	gemm := func(x, y string, tx, ty bool) string {
		return c.nodeWith("Gemm", []string{x, y},
			onnx.Attr("alpha", alpha), onnx.Attr("transA", tx), onnx.Attr("transB", ty))
	}
	if c.needsGradient(0) {
		if ta {
			c.add(0, gemm(b, upstream, tb, true))
		} else {
			c.add(0, gemm(upstream, b, false, !tb))
		}
	}
	if c.needsGradient(1) {
		if tb {
			c.add(1, gemm(upstream, a, true, ta))
		} else {
			c.add(1, gemm(a, upstream, !ta, false))
		}
	}
	if c.needsGradient(2) {
		d := c.unbroadcast(upstream, c.input(2))
		if beta != 1 {
			d = c.times(float64(beta), d)
		}
		c.add(2, d)
	}
}
