package autodiff

import (
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// standardization computes x̂ = (x − mean)·r with r = 1/√(variance + ε), over axes. If it
// is not centred, it computes x̂ = x·r with r = 1/√(mean x² + ε).
type standardization struct {
	axes    []int64
	epsilon float64
	centred bool
}

// apply returns x̂ and r for x.
func (s standardization) apply(c *call, x string) (xhat, r string) {
	if s.centred {
		x = c.node("Sub", x, c.reduce("ReduceMean", x, s.axes, true))
	}
	variance := c.reduce("ReduceMean", c.square(x), s.axes, true)
	r = c.node("Reciprocal", c.node("Sqrt", c.plus(s.epsilon, variance)))
	return c.node("Mul", x, r), r
}

// gradient converts g, the gradient with respect to x̂, to the gradient with respect to x:
// r·(g − mean g − x̂·mean(g·x̂)). If the standardization is not centred, the term mean g is
// absent.
func (s standardization) gradient(c *call, g, xhat, r string) string {
	projection := c.node("Mul", xhat, c.reduce("ReduceMean", c.node("Mul", g, xhat), s.axes, true))
	if s.centred {
		g = c.node("Sub", g, c.reduce("ReduceMean", g, s.axes, true))
	}
	return c.node("Mul", r, c.node("Sub", g, projection))
}

// gradLayerNormalization returns the rule of LayerNormalization, y = x̂·scale + bias. If
// centred is false, it returns the rule of RMSNormalization, which has no bias.
func gradLayerNormalization(centred bool) rule {
	return func(c *call) {
		x, scale := c.input(0), c.input(1)
		axes, ok := c.axesFrom(x, c.attrInt("axis", -1))
		if !ok || !c.checkOnlyFirstOutput() {
			return
		}
		s := standardization{axes: axes, epsilon: c.attrFloat("epsilon", 1e-5), centred: centred}
		upstream, gain, xWide := c.upstream(0), scale, x
		if isHalf(c.types.get(x).elem) && c.attrInt("stash_type", 1) == 1 {
			xWide = c.castElem(x, pb.TensorProto_FLOAT)
			upstream, gain = c.castTo(upstream, xWide), c.castTo(gain, xWide)
		}
		xhat, r := s.apply(c, xWide)
		if c.needsGradient(1) {
			c.addUnbroadcast(1, c.castTo(c.node("Mul", upstream, xhat), scale))
		}
		c.addUnbroadcast(2, c.upstream(0))
		if c.needsGradient(0) {
			c.add(0, c.castTo(s.gradient(c, c.node("Mul", upstream, gain), xhat, r), x))
		}
	}
}

// axesFrom returns the axes of x from axis to the last one.
func (c *call) axesFrom(x string, axis int64) ([]int64, bool) {
	if axis < 0 {
		return axisRange(int(axis), 0), true
	}
	rank, ok := c.types.get(x).rank()
	if !ok {
		c.fail("the rank of %q is not known", x)
	}
	return axisRange(int(axis), rank), ok
}

// gradInstanceNormalization is the rule of InstanceNormalization. This operator normalises
// each channel of each row separately.
func gradInstanceNormalization(c *call) {
	x, upstream := c.input(0), c.upstream(0)
	axes, ok := c.axesFrom(x, 2)
	if !ok {
		return
	}
	s := standardization{axes: axes, epsilon: c.attrFloat("epsilon", 1e-5), centred: true}
	xhat, r := s.apply(c, x)
	c.addChannelGradients(upstream, xhat, axes)
	if c.needsGradient(0) {
		c.add(0, s.gradient(c, c.node("Mul", upstream, c.broadcastChannels(c.input(1), axes)), xhat, r))
	}
}

// addChannelGradients adds the gradients of inputs 1 and 2, a scale and a bias for each
// channel. Channels are axis 1, and axes are the axes after it.
func (c *call) addChannelGradients(upstream, xhat string, axes []int64) {
	summed := append([]int64{0}, axes...)
	if c.needsGradient(1) {
		c.add(1, c.sum(c.node("Mul", upstream, xhat), summed, false))
	}
	if c.needsGradient(2) {
		c.add(2, c.sum(upstream, summed, false))
	}
}

// broadcastChannels adds axes of size 1 to a vector that has one number per channel, so
// that it broadcasts along axes.
func (c *call) broadcastChannels(v string, axes []int64) string {
	if len(axes) == 0 {
		return v
	}
	return c.node("Unsqueeze", v, c.ints(axisRange(1, len(axes)+1)...))
}

// gradGroupNormalization is the rule of GroupNormalization since operator set 21, with a
// scale and a bias for each channel.
func gradGroupNormalization(c *call) {
	if c.b.Opset() < 21 {
		c.fail("before operator set 21 it scales whole groups")
		return
	}
	x, upstream := c.input(0), c.upstream(0)
	axes, ok := c.axesFrom(x, 2)
	if !ok {
		return
	}
	grouped := c.ints(0, c.attrInt("num_groups", 1), -1)
	groups := func(v string) string { return c.node("Reshape", c.beforeReshape(v), grouped) }
	s := standardization{axes: []int64{2}, epsilon: c.attrFloat("epsilon", 1e-5), centred: true}
	xhat, r := s.apply(c, groups(x))
	c.addChannelGradients(upstream, c.reshapeLike(xhat, x), axes)
	if c.needsGradient(0) {
		g := groups(c.node("Mul", upstream, c.broadcastChannels(c.input(1), axes)))
		c.add(0, c.reshapeLike(s.gradient(c, g, xhat, r), x))
	}
}

// gradBatchNormalization is the rule of BatchNormalization in inference, y = (x −
// mean)·r·scale + bias with r = 1/√(variance + ε). It supports gradients with respect to
// all inputs.
func gradBatchNormalization(c *call) {
	if c.attrInt("training_mode", 0) != 0 {
		c.fail("it is in training mode")
		return
	}
	x, upstream := c.input(0), c.upstream(0)
	axes, ok := c.axesFrom(x, 2)
	if !ok || !c.checkOnlyFirstOutput() {
		return
	}
	r := c.node("Reciprocal", c.node("Sqrt", c.plus(c.attrFloat("epsilon", 1e-5), c.input(4))))
	gain := c.node("Mul", c.castTo(c.input(1), r), r)
	if c.needsGradient(0) {
		c.add(0, c.node("Mul", upstream, c.broadcastChannels(c.castTo(gain, x), axes)))
	}
	if !c.needsGradient(1) && !c.needsGradient(2) && !c.needsGradient(3) && !c.needsGradient(4) {
		return
	}
	centred := c.node("Sub", x, c.broadcastChannels(c.castTo(c.input(3), x), axes))
	c.addChannelGradients(upstream, c.node("Mul", centred, c.broadcastChannels(c.castTo(r, x), axes)), axes)
	summed := append([]int64{0}, axes...)
	if c.needsGradient(3) {
		c.add(3, c.node("Neg", c.node("Mul", c.sum(upstream, summed, false), gain)))
	}
	if c.needsGradient(4) {
		projection := c.sum(c.node("Mul", upstream, centred), summed, false)
		c.add(4, c.times(-0.5, c.node("Mul", projection, c.node("Mul", gain, c.square(r)))))
	}
}

// gradLRN is the rule of LRN, y = x·d^−β with d = bias + α/size·Σ x². The sum Σ is over a
// window of channels. With the upstream gradient g, the gradient is g·d^−β −
// 2αβ/size·x·Σ′(g·y/d). Σ′ sums over the mirrored window.
func gradLRN(c *call) {
	x, y, upstream := c.input(0), c.output(0), c.upstream(0)
	rank, ok := c.types.get(x).rank()
	if !ok {
		c.fail("the rank of %q is not known", x)
		return
	}
	size := c.attrInt("size", 1)
	if size > 1<<12 {
		c.fail("its window of %d channels is too large", size)
		return
	}
	alpha, beta := c.attrFloat("alpha", 1e-4), c.attrFloat("beta", 0.75)
	before, after := (size-1)/2, size/2
	d := c.plus(c.attrFloat("bias", 1), c.times(alpha/float64(size), c.sumChannels(c.square(x), rank, before, after)))
	direct := c.node("Mul", upstream, c.node("Pow", d, c.scalar(-beta, x)))
	others := c.sumChannels(c.node("Div", c.node("Mul", upstream, y), d), rank, after, before)
	c.add(0, c.node("Sub", direct, c.times(2*alpha*beta/float64(size), c.node("Mul", x, others))))
}

// sumChannels sums x over a window of channels. The window of a channel begins `before`
// channels earlier and ends `after` channels later.
func (c *call) sumChannels(x string, rank int, before, after int64) string {
	if before+after == 0 {
		return x
	}
	pads := make([]int64, 2*rank)
	pads[1], pads[rank+1] = before, after
	padded := c.node("Pad", x, c.ints(pads...))
	channel := c.ints(1)
	var shifted []string
	for i := range before + after + 1 {
		end := i - before - after
		if end == 0 {
			end = 1 << 40
		}
		shifted = append(shifted, c.node("Slice", padded, c.ints(i), c.ints(end), channel))
	}
	return c.node("Sum", shifted...)
}

// gradLpNormalization is the rule of LpNormalization, y = x/‖x‖. With the upstream gradient
// g, the gradient is (g − n·Σ g·y)/‖x‖. For p = 2, n is y. For p = 1, n is the sign of y.
// If the norm is 0, both y and the gradient are 0.
func gradLpNormalization(c *call) {
	p := c.attrInt("p", 2)
	if p != 1 && p != 2 {
		c.fail("its p is %d", p)
		return
	}
	c.add(0, c.lpNormGradient(c.input(0), c.output(0), p, c.attrInt("axis", -1)))
}

// lpNormGradient returns the gradient of y = x/‖x‖ with respect to x. ‖x‖ is the p-norm
// along an axis, with p = 1 or 2.
func (c *call) lpNormGradient(x, y string, p, axis int64) string {
	op, normal := "ReduceL2", y
	if p == 1 {
		op, normal = "ReduceL1", c.node("Sign", x)
	}
	upstream, axes := c.upstream(0), []int64{axis}
	projection := c.node("Mul", normal, c.sum(c.node("Mul", upstream, y), axes, true))
	return c.divideOrZero(c.node("Sub", upstream, projection), c.reduce(op, x, axes, true))
}

// divideOrZero returns a/b, or 0 if b is 0.
func (g *tape) divideOrZero(a, b string) string {
	zero := g.scalar(0, b)
	isZero := g.node("Equal", b, zero)
	return g.node("Where", isZero, zero, g.node("Div", a, g.node("Where", isZero, g.scalar(1, b), b)))
}
