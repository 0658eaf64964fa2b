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
	if params := c.responseParameters(); len(params) > 0 {
		b = append(b, `,"parameters":{`...)
		for i, p := range params {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, p.name), ':')
			b = appendNumber(b, p.value)
		}
		b = append(b, '}')
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

// responseParameter is a parameter of a response.
type responseParameter struct {
	name  string
	value float64
}

// responseParameters returns the coverage level and the threshold of adaptive intervals. With
// several targets, names end in the number of the target.
func (c *call) responseParameters() (list []responseParameter) {
	for t, threshold := range c.thresholds {
		suffix := ""
		if len(c.thresholds) > 1 {
			suffix = "_" + strconv.Itoa(t)
		}
		if level, ok := coverageLevel(c.adaptiveLevels[t], threshold); ok {
			list = append(list, responseParameter{"level" + suffix, level})
		}
		list = append(list, responseParameter{"threshold" + suffix, threshold})
	}
	return list
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
