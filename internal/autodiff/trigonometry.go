package autodiff

func slopeSin(c *call, x, _ string) string { return c.node("Cos", x) }

func slopeCos(c *call, x, _ string) string { return c.node("Neg", c.node("Sin", x)) }

func slopeTan(c *call, _, y string) string { return c.plus(1, c.square(y)) }

func slopeAsin(c *call, x, _ string) string {
	return c.node("Reciprocal", c.node("Sqrt", c.below1(c.square(x))))
}

func slopeAcos(c *call, x, y string) string { return c.node("Neg", slopeAsin(c, x, y)) }

func slopeAtan(c *call, x, _ string) string { return c.node("Reciprocal", c.plus(1, c.square(x))) }

func slopeSinh(c *call, x, _ string) string { return c.node("Cosh", x) }

func slopeCosh(c *call, x, _ string) string { return c.node("Sinh", x) }

func slopeAsinh(c *call, x, _ string) string {
	return c.node("Reciprocal", c.node("Sqrt", c.plus(1, c.square(x))))
}

func slopeAcosh(c *call, x, _ string) string {
	return c.node("Reciprocal", c.node("Sqrt", c.plus(-1, c.square(x))))
}

func slopeAtanh(c *call, x, _ string) string { return c.node("Reciprocal", c.below1(c.square(x))) }
