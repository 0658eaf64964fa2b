package autodiff

import "github.com/attach-uncertainty/attach/internal/onnx"

// gradBiasGelu is that of Gelu after a bias is added, in the exact form or the
// one with tanh.
func gradBiasGelu(slope func(c *call, x string) string) rule {
	return func(c *call) {
		x := c.in(0)
		if c.in(1) != "" {
			x = c.node("Add", x, c.in(1))
		}
		up := c.node("Mul", c.up(0), slope(c, x))
		for i := range c.n.Input {
			c.addSummed(i, up)
		}
	}
}

// gradSkipNormalization normalizes the sum of input, skip and a bias, and may
// have that sum as its fourth output. biases are the numbers of the inputs
// that are the normalization's own bias and the one that enters the sum.
func gradSkipNormalization(centred bool, shift, bias int) rule {
	return func(c *call) {
		if c.up(1) != "" || c.up(2) != "" {
			c.fail("its mean or deviation is differentiated")
			return
		}
		sum := c.out(3)
		if sum == "" {
			sum = c.node("Add", c.in(0), c.in(1))
			if c.in(bias) != "" {
				sum = c.node("Add", sum, c.in(bias))
			}
		}
		d := c.up(3)
		if c.up(0) != "" {
			dx, ok := c.normalized(sum, centred, 2, shift, -1, 1e-12)
			if !ok {
				return
			}
			if d != "" {
				dx = c.node("Add", d, dx)
			}
			d = dx
		}
		for _, i := range []int{0, 1, bias} {
			c.addSummed(i, d)
		}
	}
}

// gradFusedMatMul is that of α·A′·B′, where ′ transposes the last two axes if
// asked.
func gradFusedMatMul(c *call) {
	if c.attrInt("transBatchA", 0) != 0 || c.attrInt("transBatchB", 0) != 0 {
		c.fail("it moves the batch axis")
		return
	}
	turn := func(v string, input int, name string) string {
		rank, _ := c.types.of(c.in(input)).rank()
		if v == "" || c.attrInt(name, 0) == 0 || rank == 1 {
			return v
		}
		return c.transpose(v)
	}
	up := c.up(0)
	if alpha := onnx.AttributeFloat(c.n, "alpha", 1); alpha != 1 {
		up = c.times(float64(alpha), up)
	}
	a, b := turn(c.in(0), 0, "transA"), turn(c.in(1), 1, "transB")
	da, db := c.productGradients(a, b, up, c.wants(0), c.wants(1))
	c.add(0, turn(da, 0, "transA"))
	c.add(1, turn(db, 1, "transB"))
}

// gradDynamicQuantizeMatMul is that of x by a quantized matrix.
func gradDynamicQuantizeMatMul(c *call) {
	if c.wants(1) || c.wants(2) {
		c.fail("its second factor depends on what is differentiated")
		return
	}
	up := c.up(0)
	right := c.node("Mul", c.dequantized(c.in(1), c.in(3), up), c.in(2))
	c.addProduct(0, 1, c.in(0), right, up)
	c.addSummed(4, up)
}

// gradMatMulIntegerToFloat is that of a product of integers, scaled.
func gradMatMulIntegerToFloat(c *call) {
	if c.wants(2) || c.wants(3) {
		c.fail("its scales depend on what is differentiated")
		return
	}
	c.addSummed(6, c.up(0))
	up := c.node("Mul", c.node("Mul", c.up(0), c.in(2)), c.in(3))
	c.integerProduct(up, 0, 1, 4, 5)
}
