package autodiff

func gradReduceSum(c *call) {
	if up, ok := c.spread(); ok {
		c.add(0, up)
	}
}

func gradReduceMean(c *call) {
	up, ok := c.spread()
	if !ok {
		return
	}
	x, y := c.in(0), c.out(0)
	if n, ok := c.reduced(); ok {
		c.add(0, c.node("Mul", up, c.scalar(1/float64(n), x)))
		return
	}
	count := c.node("Div", c.node("Size", x), c.node("Size", y))
	c.add(0, c.node("Div", up, c.castTo(count, x)))
}

// reduced is how many elements each of the output is made of, where known.
func (c *call) reduced() (int64, bool) {
	x := c.types.of(c.in(0))
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

// spread repeats the gradient of a reduction along the axes that were reduced.
func (c *call) spread() (string, bool) {
	up, ok := c.kept(c.up(0))
	if !ok {
		return "", false
	}
	return c.expand(up, c.in(0)), true
}

// kept gives a tensor of the shape of a reduction's output the axes that were
// reduced back, with size 1, or makes it a scalar where all were.
func (c *call) kept(v string) (string, bool) {
	if c.attrInt("keepdims", 1) != 0 {
		return v, true
	}
	axes, err := c.types.axes(c.n, 1)
	switch {
	case err != nil:
		c.fail("its axes are not constant")
		return "", false
	case axes == nil:
		return v, true // a scalar, or nothing was reduced
	}
	return c.node("Unsqueeze", v, c.ints(axes...)), true
}

// gradSoftmax: dx = y·(dy − Σ dy·y).
func gradSoftmax(c *call) {
	axes, ok := c.softmaxAxes()
	if !ok {
		return
	}
	y := c.out(0)
	weighted := c.node("Mul", c.up(0), y)
	c.add(0, c.node("Sub", weighted, c.node("Mul", y, c.sum(weighted, axes, true))))
}

// gradLogSoftmax: dx = dy − exp(y)·Σ dy.
func gradLogSoftmax(c *call) {
	axes, ok := c.softmaxAxes()
	if !ok {
		return
	}
	up := c.up(0)
	c.add(0, c.node("Sub", up, c.node("Mul", c.node("Exp", c.out(0)), c.sum(up, axes, true))))
}

// softmaxAxes returns the axes along which a softmax sums to 1: one of them,
// and before operator set 13 all from that one on.
func (c *call) softmaxAxes() ([]int64, bool) {
	if c.opset() >= 13 {
		return []int64{c.attrInt("axis", -1)}, true
	}
	return c.axesFrom(c.in(0), c.attrInt("axis", 1))
}
