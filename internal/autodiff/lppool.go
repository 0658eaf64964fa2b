package autodiff

// gradLpPool is that of y = (Σ|x|ᵖ)^(1/p) over windows:
// |x|ᵖ⁻¹·sign x times the sum over the windows of up·y¹⁻ᵖ.
func gradLpPool(c *call) {
	x := c.in(0)
	s, ok := c.types.geometryOf(c.n, c.types.of(x), nil)
	if !ok {
		c.fail("the size of its window is not known")
		return
	}
	c.add(0, c.lpBack(c.spreadWindows(c.lpShare(), x, s, 1)))
}

// lpShare is up·y¹⁻ᵖ, and 0 at y = 0.
func (c *call) lpShare() string {
	p, y, up := c.attrInt("p", 2), c.out(0), c.up(0)
	if p == 1 {
		return up
	}
	zero := c.node("Equal", y, c.scalar(0, y))
	safe := c.node("Where", zero, c.scalar(1, y), y)
	if p > 2 {
		safe = c.node("Pow", safe, c.scalar(float64(p-1), y))
	}
	return c.node("Where", zero, c.scalar(0, y), c.node("Div", up, safe))
}

// lpBack is share·|x|ᵖ⁻¹·sign x.
func (c *call) lpBack(share string) string {
	p, x := c.attrInt("p", 2), c.in(0)
	switch p {
	case 1:
		return c.node("Mul", share, c.node("Sign", x))
	case 2:
		return c.node("Mul", share, x)
	}
	size := c.node("Pow", c.node("Abs", x), c.scalar(float64(p-1), x))
	return c.node("Mul", share, c.node("Mul", size, c.node("Sign", x)))
}
