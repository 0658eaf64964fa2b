package autodiff

// dequantized is the real numbers that integers stand for, in units of the
// scale, in the type of like.
func (c *call) dequantized(q, zero, like string) string {
	real := c.castTo(q, like)
	if zero == "" {
		return real
	}
	if v, ok := c.types.intsOf(zero); ok && len(v) == 1 && v[0] == 0 {
		return real
	}
	return c.node("Sub", real, c.castTo(zero, like))
}

func gradMatMulInteger(c *call) {
	c.integerProduct(c.up(0), 0, 1, 2, 3)
}

func gradQLinearMatMul(c *call) {
	if up, ok := c.unsaturated(6); ok {
		factor := c.node("Mul", c.castTo(c.in(1), up), c.castTo(c.in(4), up))
		c.integerProduct(c.node("Mul", up, factor), 0, 3, 2, 5)
	}
}

// unsaturated is the gradient of a product before it is divided by the scale
// that is input scale and rounded. A result at the end of its range counts as
// saturated.
func (c *call) unsaturated(scale int) (string, bool) {
	low, high, ok := integerRange(c.types.of(c.out(0)).elem)
	if !ok {
		c.fail("it quantizes to %s", c.types.of(c.out(0)).elem)
		return "", false
	}
	up := c.up(0)
	y := c.castTo(c.out(0), up)
	inside := c.node("And", c.node("Greater", y, c.scalar(low, up)), c.node("Less", y, c.scalar(high, up)))
	return c.node("Where", inside, c.node("Div", up, c.castTo(c.in(scale), up)), c.scalar(0, up)), true
}

// integerProduct adds the gradients of a product of integers, inputs a and b
// with their zero points.
func (c *call) integerProduct(up string, a, b, zeroA, zeroB int) {
	if c.wants(zeroA) || c.wants(zeroB) {
		c.fail("its zero point depends on what is differentiated")
		return
	}
	if t := c.types.of(c.in(zeroA)); c.in(zeroA) != "" && len(t.dims) > 0 && t.dims[0].n != 1 {
		c.fail("its first factor has a zero point for each row")
		return
	}
	left, right := c.in(a), c.in(b) // whose shapes are read in any case
	if c.wants(a) {
		right = c.dequantized(right, c.in(zeroB), up)
	}
	if c.wants(b) {
		left = c.dequantized(left, c.in(zeroA), up)
	}
	c.addProduct(a, b, left, right, up)
}

func gradConvInteger(c *call) { c.integerConvolution(c.up(0), 1, 3) }

func gradQLinearConv(c *call) {
	up, ok := c.unsaturated(6)
	if !ok {
		return
	}
	axes, ok := c.axesFrom(c.in(0), 2)
	if !ok {
		return
	}
	gain := c.node("Mul", c.castTo(c.in(1), up), c.castTo(c.in(4), up))
	if d, ok := c.types.of(c.in(4)).dim(0); ok && d.n != 1 {
		gain = c.perChannel(gain, axes)
	}
	c.integerConvolution(c.node("Mul", up, gain), 3, 5)
}

// integerConvolution adds the gradient of a convolution's input; w and zero
// are the inputs that hold its kernel and that kernel's zero point.
func (c *call) integerConvolution(up string, w, zero int) {
	if c.wants(w) {
		c.fail("its kernel depends on what is differentiated")
		return
	}
	kernel := c.dequantized(c.in(w), c.alongRows(c.in(zero), c.in(w)), up)
	s, ok := c.convolution(kernel, c.types.of(c.in(0)))
	switch {
	case !ok:
	case s.begin == nil:
		c.fail("its padding depends on sizes that are not known")
	default:
		c.add(0, c.convolveBack(up, kernel, c.in(0), s, c.attrInt("group", 1)))
	}
}

// alongRows gives one number per row of w as many axes as w has.
func (c *call) alongRows(v, w string) string {
	t, rank := c.types.of(v), len(c.types.of(w).dims)
	if len(t.dims) != 1 || t.dims[0].n == 1 {
		return v
	}
	var behind []int64
	for i := 1; i < rank; i++ {
		behind = append(behind, int64(i))
	}
	return c.node("Unsqueeze", v, c.ints(behind...))
}
