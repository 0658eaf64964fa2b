package serve

import "strconv"

// writeResponse writes the response to c.response: JSON, followed by the binary data of
// the outputs. It returns the length of the JSON.
func (c *call) writeResponse(e *entry, m *model) int {
	b := append(c.response[:0], `{"model_name":`...)
	b = appendString(b, e.name)
	b = append(b, `,"model_version":`...)
	b = appendString(b, e.version)
	if c.id != "" {
		b = append(b, `,"id":`...)
		b = appendString(b, c.id)
	}
	b = append(b, `,"outputs":[`...)
	first := true
	c.eachOutput(m, func(o *output, binary bool) {
		if !first {
			b = append(b, ',')
		}
		first = false
		c.shape = o.appendShape(c.shape[:0], &c.request, c.job.predictions)
		b = append(b, `{"name":"`...)
		b = append(b, o.name...)
		b = append(b, `","datatype":"`...)
		b = append(b, o.datatype...)
		b = append(b, `","shape":[`...)
		for i, d := range c.shape {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(d), 10)
		}
		b = append(b, ']')
		if binary {
			b = append(b, `,"parameters":{"binary_data_size":`...)
			b = strconv.AppendInt(b, int64(o.binarySize(c.job.predictions, rowWidth(c.shape))), 10)
			b = append(b, "}}"...)
			return
		}
		b = append(b, `,"data":`...)
		b = o.appendJSON(b, c.job.predictions, rowWidth(c.shape))
		b = append(b, '}')
	})
	b = append(b, "]}"...)
	header := len(b)
	c.eachOutput(m, func(o *output, binary bool) {
		if binary {
			c.shape = o.appendShape(c.shape[:0], &c.request, c.job.predictions)
			b = o.appendBinary(b, c.job.predictions, rowWidth(c.shape))
		}
	})
	c.response = b
	return header
}

// eachOutput calls visit for each output of the response. binary reports whether the output
// is sent as binary data.
func (c *call) eachOutput(m *model, visit func(o *output, binary bool)) {
	for i := range m.outputs {
		if o := &m.outputs[i]; len(c.outputs) == 0 && c.includes(o) {
			visit(o, c.binaryOutput)
		}
	}
	for _, w := range c.outputs {
		for i := range m.outputs {
			if o := &m.outputs[i]; o.name == w.name {
				visit(o, w.format == binaryFormat || w.format == defaultFormat && c.binaryOutput)
			}
		}
	}
}
