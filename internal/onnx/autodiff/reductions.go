package autodiff

func gradReduceSum(c *call) {
	if upstream, ok := c.expandReduced(); ok {
		c.add(0, upstream)
	}
}

func gradReduceMean(c *call) {
	upstream, ok := c.expandReduced()
	if !ok {
		return
	}
	x, y := c.input(0), c.output(0)
	if n, ok := c.reducedCount(); ok {
		c.add(0, c.node("Mul", upstream, c.scalar(1/float64(n), x)))
		return
	}
	count := c.node("Div", c.node("Size", x), c.node("Size", y))
	c.add(0, c.node("Div", upstream, c.castTo(count, x)))
}

// reducedCount returns the number of input elements that the node combines into each output
// element. It returns false if the number is unknown.
func (c *call) reducedCount() (int64, bool) {
	x := c.types.get(c.input(0))
	axes, err := c.types.axes(c.n, 1)
	if !x.ranked || err != nil {
		return 0, false
	}
	if axes == nil {
		if c.attrInt("noop_with_empty_axes", 0) != 0 {
			return 1, true
		}
		return x.size()
	}
	n := int64(1)
	for _, a := range axes {
		d, ok := x.dim(a)
		if !ok || !d.known() {
			return 0, false
		}
		n *= d.n
	}
	return n, n > 0
}

// expandReduced repeats the gradient of the output along the axes that the node reduced.
func (c *call) expandReduced() (string, bool) {
	upstream, ok := c.restoreReducedAxes(c.upstream(0))
	if !ok {
		return "", false
	}
	return c.expand(upstream, c.input(0)), true
}

// restoreReducedAxes inserts into v the axes that the node removed, with size 1. If the
// node names no axes, v stays as it is: it is a scalar, or no axis was reduced.
// restoreReducedAxes returns false if the axes are not constant.
func (c *call) restoreReducedAxes(v string) (string, bool) {
	if c.attrInt("keepdims", 1) != 0 {
		return v, true
	}
	axes, err := c.types.axes(c.n, 1)
	switch {
	case err != nil:
		c.fail("its axes are not constant")
		return "", false
	case axes == nil:
		return v, true // v is a scalar, or no axis was reduced
	}
	return c.node("Unsqueeze", v, c.ints(axes...)), true
}

// gradSoftmax computes dx = y·(dy − Σ dy·y) along the node's axis.
func gradSoftmax(c *call) {
	y := c.output(0)
	weighted := c.node("Mul", c.upstream(0), y)
	c.add(0, c.node("Sub", weighted, c.node("Mul", y, c.sumAlong(weighted))))
}

// gradLogSoftmax computes dx = dy − exp(y)·Σ dy along the node's axis.
func gradLogSoftmax(c *call) {
	upstream := c.upstream(0)
	c.add(0, c.node("Sub", upstream, c.node("Mul", c.node("Exp", c.output(0)), c.sumAlong(upstream))))
}

// sumAlong returns the sum of x along the node's axis. The axis keeps the size 1.
func (c *call) sumAlong(x string) string { return c.sum(x, []int64{c.attrInt("axis", -1)}, true) }

// reductionRule returns the rule of an operator that reduces axes like ReduceSum. gradient
// computes the gradient of x from upstream and y. In both, reduced axes have size 1. For a
// node that reduces no axes, the rule is the identity if identity is set, and fails if it
// is not.
func reductionRule(identity bool, gradient func(c *call, upstream, x, y string) string) rule {
	return func(c *call) {
		axes, err := c.types.axes(c.n, 1)
		if err == nil && axes == nil && c.attrInt("noop_with_empty_axes", 0) != 0 {
			if identity {
				gradIdentity(c)
			} else {
				c.fail("it reduces no axes")
			}
			return
		}
		upstream, ok := c.restoreReducedAxes(c.upstream(0))
		y, _ := c.restoreReducedAxes(c.output(0))
		if ok {
			c.add(0, gradient(c, upstream, c.input(0), y))
		}
	}
}

// sumOverReducedAxes returns the sum of x over the axes that the node reduces. These axes
// keep the size 1.
func (c *call) sumOverReducedAxes(x string) string {
	axes, err := c.types.axes(c.n, 1)
	if err != nil {
		c.fail("its axes are not constant")
	}
	return c.reduce("ReduceSum", x, axes, true)
}

// extremumGradient divides the gradient evenly among elements that tie, like PyTorch's amax
// and amin.
func extremumGradient(c *call, upstream, x, y string) string {
	isExtremum := c.castTo(c.node("Equal", x, y), x)
	return c.node("Mul", isExtremum, c.node("Div", upstream, c.sumOverReducedAxes(isExtremum)))
}

func l1Gradient(c *call, upstream, x, _ string) string {
	return c.node("Mul", upstream, c.node("Sign", x))
}

// l2Gradient returns 0 if the norm is 0, because the norm has no derivative there.
func l2Gradient(c *call, upstream, x, y string) string {
	return c.node("Mul", upstream, c.divideOrZero(x, y))
}

func sumSquareGradient(c *call, upstream, x, _ string) string {
	return c.node("Mul", upstream, c.times(2, x))
}

func logSumExpGradient(c *call, upstream, x, y string) string {
	return c.node("Mul", upstream, c.node("Exp", c.node("Sub", x, y)))
}
