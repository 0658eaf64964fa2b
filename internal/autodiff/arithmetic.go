package autodiff

func gradIdentity(c *call) { c.add(0, c.up(0)) }

func gradAdd(c *call) {
	for i := range 2 {
		if c.wants(i) {
			c.addSummed(i, c.up(0))
		}
	}
}

func gradSum(c *call) {
	for i := range c.n.Input {
		if c.wants(i) {
			c.addSummed(i, c.up(0))
		}
	}
}

func gradMean(c *call) {
	up := c.times(1/float64(len(c.n.Input)), c.up(0))
	for i := range c.n.Input {
		if c.wants(i) {
			c.addSummed(i, up)
		}
	}
}

// gradMod is that of a − ⌊a/b⌋·b, rounded as the node does.
func gradMod(c *call) {
	if c.wants(0) {
		c.addSummed(0, c.up(0))
	}
	if c.wants(1) {
		whole := c.node("Div", c.node("Sub", c.in(0), c.out(0)), c.in(1))
		c.addSummed(1, c.node("Neg", c.node("Mul", c.up(0), whole)))
	}
}

func gradSub(c *call) {
	if c.wants(0) {
		c.addSummed(0, c.up(0))
	}
	if c.wants(1) {
		c.add(1, c.node("Neg", c.unbroadcast(c.up(0), c.in(1))))
	}
}

func gradMul(c *call) {
	a, b := c.in(0), c.in(1)
	if a == b {
		twice := c.node("Mul", c.scalar(2, a), a)
		c.add(0, c.node("Mul", c.up(0), twice))
		return
	}
	if c.wants(0) {
		c.addSummed(0, c.node("Mul", c.up(0), b))
	}
	if c.wants(1) {
		c.addSummed(1, c.node("Mul", c.up(0), a))
	}
}

func gradDiv(c *call) {
	b := c.in(1)
	overB := c.node("Div", c.up(0), b)
	if c.wants(0) {
		c.addSummed(0, overB)
	}
	if c.wants(1) {
		c.addSummed(1, c.node("Neg", c.node("Mul", overB, c.out(0))))
	}
}

func gradNeg(c *call) { c.add(0, c.node("Neg", c.up(0))) }

func gradReciprocal(c *call) {
	y := c.out(0)
	c.add(0, c.node("Neg", c.node("Mul", c.up(0), c.node("Mul", y, y))))
}

func gradPow(c *call) {
	x, p := c.in(0), c.in(1)
	if c.wants(0) {
		e := c.castTo(p, x)
		// An exponent of 0 has slope 0 at x = 0 too, where x⁻¹ is not finite.
		one := c.scalar(1, x)
		lower := c.node("Sub", c.node("Where", c.node("Equal", e, c.scalar(0, x)), one, e), one)
		c.addSummed(0, c.node("Mul", c.up(0), c.node("Mul", e, c.node("Pow", x, lower))))
	}
	if c.wants(1) {
		// The derivative by the exponent is x^p·log x, and 0 at x = 0, where
		// the logarithm is not finite.
		zero := c.scalar(0, x)
		log := c.node("Where", c.node("Equal", x, zero), zero, c.node("Log", x))
		c.addSummed(1, c.castTo(c.node("Mul", c.up(0), c.node("Mul", c.out(0), log)), p))
	}
}

func gradSqrt(c *call) {
	twice := c.node("Mul", c.scalar(2, c.in(0)), c.out(0))
	c.add(0, c.node("Div", c.up(0), twice))
}

func gradExp(c *call) { c.add(0, c.node("Mul", c.up(0), c.out(0))) }

func gradLog(c *call) { c.add(0, c.node("Div", c.up(0), c.in(0))) }

func gradAbs(c *call) { c.add(0, c.node("Mul", c.up(0), c.node("Sign", c.in(0)))) }
