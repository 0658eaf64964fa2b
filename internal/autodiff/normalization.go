package autodiff

import "github.com/attach-uncertainty/attach/internal/onnx/pb"

// standardization is x̂ = (x − mean)·r with r = 1/√(variance + ε), over axes;
// where it is not centred, x̂ = x·r with r = 1/√(mean x² + ε).
type standardization struct {
	axes    []int64
	epsilon float64
	centred bool
}

// of returns x̂ and r.
func (s standardization) of(c *call, x string) (xhat, r string) {
	if s.centred {
		x = c.node("Sub", x, c.reduce("ReduceMean", x, s.axes, true))
	}
	variance := c.reduce("ReduceMean", c.square(x), s.axes, true)
	r = c.node("Reciprocal", c.node("Sqrt", c.plus(s.epsilon, variance)))
	return c.node("Mul", x, r), r
}

// back returns the gradient of x from that of x̂:
// r·(g − mean g − x̂·mean(g·x̂)), the mean of g only where x̂ is centred.
func (s standardization) back(c *call, g, xhat, r string) string {
	along := c.node("Mul", xhat, c.reduce("ReduceMean", c.node("Mul", g, xhat), s.axes, true))
	if s.centred {
		g = c.node("Sub", g, c.reduce("ReduceMean", g, s.axes, true))
	}
	return c.node("Mul", r, c.node("Sub", g, along))
}

// gradLayerNormalization is that of y = x̂·scale + bias, and of RMSNormalization,
// which neither centres nor has a bias.
func gradLayerNormalization(centred bool) rule {
	return func(c *call) {
		if c.onlyFirst() {
			if dx, ok := c.normalized(c.in(0), centred, 1, 2, c.attrInt("axis", -1), 1e-5); ok && c.wants(0) {
				c.add(0, dx)
			}
		}
	}
}

// normalized adds the gradients of scale and bias, the inputs of those
// numbers, and returns that of x. epsilon is what the operator adds where it has
// no attribute that says.
func (c *call) normalized(x string, centred bool, scale, bias int, axis int64, epsilon float64) (string, bool) {
	axes, ok := c.axesFrom(x, axis)
	if !ok {
		return "", false
	}
	s := standardization{axes: axes, epsilon: c.attrFloat("epsilon", epsilon), centred: centred}
	up, gain := c.up(0), c.in(scale)
	wide := x
	if isHalf(c.types.of(x).elem) && c.attrInt("stash_type", 1) == 1 {
		wide = c.castElem(x, pb.TensorProto_FLOAT)
		up, gain = c.castTo(up, wide), c.castTo(gain, wide)
	}
	xhat, r := s.of(c, wide)
	if c.wants(scale) {
		d := c.castTo(c.node("Mul", up, xhat), c.in(scale))
		c.addSummed(scale, d)
	}
	if c.wants(bias) {
		c.addSummed(bias, c.up(0))
	}
	return c.castTo(s.back(c, c.node("Mul", up, gain), xhat, r), x), true
}

// axesFrom returns axis and those after it.
func (c *call) axesFrom(x string, axis int64) ([]int64, bool) {
	last := int64(-1)
	if axis >= 0 {
		rank, ok := c.types.of(x).rank()
		if !ok {
			c.fail("the rank of %q is not known", x)
			return nil, false
		}
		last = int64(rank) - 1
	}
	var axes []int64
	for ; axis <= last; axis++ {
		axes = append(axes, axis)
	}
	return axes, true
}

// gradInstanceNormalization: each channel of each row by itself.
func gradInstanceNormalization(c *call) {
	x, up := c.in(0), c.up(0)
	axes, ok := c.axesFrom(x, 2)
	if !ok {
		return
	}
	s := standardization{axes: axes, epsilon: c.attrFloat("epsilon", 1e-5), centred: true}
	xhat, r := s.of(c, x)
	c.addPerChannel(up, xhat, axes)
	if c.wants(0) {
		c.add(0, s.back(c, c.node("Mul", up, c.perChannel(c.in(1), axes)), xhat, r))
	}
}

// addPerChannel adds the gradients of inputs 1 and 2, a scale and a bias for
// each channel, axis 1; axes are those behind it.
func (c *call) addPerChannel(up, xhat string, axes []int64) {
	summed := append([]int64{0}, axes...)
	if c.wants(1) {
		c.add(1, c.sum(c.node("Mul", up, xhat), summed, false))
	}
	if c.wants(2) {
		c.add(2, c.sum(up, summed, false))
	}
}

// perChannel gives a vector of one number per channel the axes behind it.
func (c *call) perChannel(v string, axes []int64) string {
	if len(axes) == 0 {
		return v
	}
	behind := make([]int64, len(axes))
	for i := range behind {
		behind[i] = int64(i) + 1
	}
	return c.node("Unsqueeze", v, c.ints(behind...))
}

// gradGroupNormalization: from operator set 21 on scale and bias are one
// number per channel, before that one per group.
func gradGroupNormalization(c *call) {
	x, up := c.in(0), c.up(0)
	behind, ok := c.axesFrom(x, 2)
	if !ok {
		return
	}
	grouped := c.ints(0, c.attrInt("num_groups", 1), -1)
	groups := func(v string) string { return c.node("Reshape", c.beforeReshape(v), grouped) }
	s := standardization{axes: []int64{2}, epsilon: c.attrFloat("epsilon", 1e-5), centred: true}
	xhat, r := s.of(c, groups(x))
	var g string
	if c.opset() < 21 {
		up = groups(up)
		c.addPerChannel(up, xhat, s.axes)
		g = c.node("Mul", up, c.perChannel(c.in(1), s.axes))
	} else {
		c.addPerChannel(up, c.reshapeLike(xhat, x), behind)
		g = groups(c.node("Mul", up, c.perChannel(c.in(1), behind)))
	}
	if c.wants(0) {
		c.add(0, c.reshapeLike(s.back(c, g, xhat, r), x))
	}
}

// gradMeanVarianceNormalization is that of (x − mean)/(deviation + 10⁻⁹).
func gradMeanVarianceNormalization(c *call) {
	x := c.in(0)
	axes := c.attrInts("axes")
	if axes == nil {
		axes = []int64{0, 2, 3}
	}
	s := standardization{axes: axes, epsilon: 1e-18, centred: true}
	xhat, r := s.of(c, x)
	c.add(0, s.back(c, c.up(0), xhat, r))
}
