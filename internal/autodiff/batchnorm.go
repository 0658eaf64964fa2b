package autodiff

import "github.com/attach-uncertainty/attach/internal/onnx"

// gradBatchNormalization is that of inference, y = (x − mean)·r·scale + bias
// with r = 1/√(variance + ε), by all of its inputs. Before operator set 14
// more than one output meant training, which the runtime does not do.
func gradBatchNormalization(c *call) {
	if c.attrInt("training_mode", 0) != 0 {
		c.fail("it is in training mode")
		return
	}
	if a := onnx.Attribute(c.n, "spatial"); a != nil && a.GetI() == 0 {
		c.fail("its statistics are per element and not per channel")
		return
	}
	x, up := c.in(0), c.up(0)
	axes, ok := c.axesFrom(x, 2)
	if !ok || !c.onlyFirst() {
		return
	}
	r := c.node("Reciprocal", c.node("Sqrt", c.plus(c.attrFloat("epsilon", 1e-5), c.in(4))))
	gain := c.node("Mul", c.castTo(c.in(1), r), r)
	if c.wants(0) {
		c.add(0, c.node("Mul", up, c.perChannel(c.castTo(gain, x), axes)))
	}
	if !c.wants(1) && !c.wants(2) && !c.wants(3) && !c.wants(4) {
		return
	}
	centred := c.node("Sub", x, c.perChannel(c.castTo(c.in(3), x), axes))
	c.addPerChannel(up, c.node("Mul", centred, c.perChannel(c.castTo(r, x), axes)), axes)
	summed := append([]int64{0}, axes...)
	if c.wants(3) {
		c.add(3, c.node("Neg", c.node("Mul", c.sum(up, summed, false), gain)))
	}
	if c.wants(4) {
		along := c.sum(c.node("Mul", up, centred), summed, false)
		c.add(4, c.times(-0.5, c.node("Mul", along, c.node("Mul", gain, c.square(r)))))
	}
}
