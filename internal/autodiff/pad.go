package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
)

// gradPad cuts the padding off again; where it repeats elements of x, each
// copy's gradient goes back to the element.
func gradPad(c *call) {
	if c.wants(2) {
		c.fail("its padding value depends on what is differentiated")
		return
	}
	x, up, pads := c.in(0), c.up(0), c.in(1)
	if a := c.attrInts("pads"); a != nil {
		pads = c.ints(a...)
	}
	if mode := onnx.AttributeString(c.n, "mode", "constant"); mode != "constant" {
		inputs := []string{c.numbered(x), pads}
		if c.in(3) != "" {
			inputs = append(inputs, "", c.in(3))
		}
		source := c.nodeWith("Pad", inputs, onnx.Attr("mode", mode))
		c.add(0, c.scatterNumbered(x, source, up, onnx.Attr("reduction", "add")))
		return
	}
	v, ok := c.types.intsOf(pads)
	switch {
	case ok && !slices.ContainsFunc(v, func(p int64) bool { return p != 0 }):
		gradIdentity(c)
		return
	case ok && c.in(3) == "" && !slices.ContainsFunc(v, func(p int64) bool { return p < 0 }):
		c.add(0, c.unpad(up, v))
		return
	}
	inputs := []string{up, c.node("Neg", pads)}
	if c.in(3) != "" {
		inputs = append(inputs, "", c.in(3))
	}
	c.add(0, c.node("Pad", inputs...))
}

// unpad cuts off what pads say, which are not negative.
func (c *call) unpad(x string, pads []int64) string {
	var starts, ends, axes []int64
	rank := len(pads) / 2
	for i, before := range pads[:rank] {
		after := pads[rank+i]
		if before == 0 && after == 0 {
			continue
		}
		end := -after
		if after == 0 {
			end = 1 << 40
		}
		starts, ends, axes = append(starts, before), append(ends, end), append(axes, int64(i))
	}
	return c.node("Slice", x, c.ints(starts...), c.ints(ends...), c.ints(axes...))
}
