package serve

import (
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/inference"
)

// output describes one output of a served .attach file.
type output struct {
	name, datatype string
	shape          []int // shape in the metadata, with the row axis first; −1 means any size
	// optional is set if the output is sent only on request: by its name or by a parameter.
	optional bool
	// appendAxes appends the sizes of the axes after the row axis. It is nil if there are no such
	// axes.
	appendAxes func(dst []int, r *request, all []attach.Prediction) []int
	// number returns value i of a row. BYTES outputs use text instead.
	number func(p *attach.Prediction, i int) float64
	text   func(p *attach.Prediction) string
}

// outputsOf returns the outputs of a .attach file.
func outputsOf(b *attach.Bundle) []output {
	single := func(name, datatype string, number func(*attach.Prediction, int) float64) output {
		return output{name: name, datatype: datatype, shape: []int{-1}, number: number}
	}
	var list []output
	if b.Base.Task == attach.Classification && b.Base.Outputs > 0 {
		list = append(list, single("class", "INT64", func(p *attach.Prediction, _ int) float64 { return float64(p.Class) }))
		if len(b.Base.Classes) > 0 {
			list = append(list, output{name: "class_name", datatype: "BYTES", shape: []int{-1}, text: func(p *attach.Prediction) string { return p.Name }})
		}
		list = append(list, single("confidence", "FP64", func(p *attach.Prediction, _ int) float64 { return p.Confidence }))
		if len(b.Calibration.TrueClasses.Labels) > 0 {
			list = append(list, output{name: setOutput, datatype: "INT64", shape: []int{-1, -1}, appendAxes: appendLargestSet, number: setMember})
		}
	}
	if b.Base.Task == attach.Regression {
		list = append(list, targetOutputs(b)...)
	}
	if b.Detector != nil {
		list = append(list, single("ood_score", "FP64", func(p *attach.Prediction, _ int) float64 { return p.Score }))
		if len(b.Calibration.OOD) > 0 {
			list = append(list,
				single("p_value", "FP64", func(p *attach.Prediction, _ int) float64 { return p.PValue }),
				single("flag", "BOOL", func(p *attach.Prediction, _ int) float64 {
					if p.Flag {
						return 1
					}
					return 0
				}))
		}
	}
	if b.Profile != nil {
		list = append(list, output{name: reasonsOutput, datatype: "BYTES", shape: []int{-1}, optional: true, text: reasonsText})
	}
	return list
}

const (
	setOutput       = "set"
	noSets          = "none" // value of the parameter "sets" that turns sets off
	quantilesOutput = "quantiles"
)

// appendLargestSet appends the number of classes in the largest set.
func appendLargestSet(dst []int, _ *request, all []attach.Prediction) []int {
	n := 0
	for i := range all {
		n = max(n, len(all[i].Set))
	}
	return append(dst, n)
}

// setMember returns class i of a row's prediction set. If the set has fewer than i+1 classes,
// it returns −1, because all rows have the width of the largest set.
func setMember(p *attach.Prediction, i int) float64 {
	if i < len(p.Set) {
		return float64(p.Set[i])
	}
	return -1
}

// targetOutputs returns the outputs of a regressor. Each output except quantiles has one
// value per row, or one value per row and target if there are several targets.
func targetOutputs(b *attach.Bundle) []output {
	t := max(b.Base.Outputs, len(b.Calibration.Quantiles))
	var list []output
	add := func(name string, value func(*attach.Target) float64) {
		o := output{name: name, datatype: "FP64", shape: []int{-1}, number: func(p *attach.Prediction, i int) float64 { return value(&p.Targets[i]) }}
		if t > 1 {
			o.shape = []int{-1, t}
			o.appendAxes = func(dst []int, _ *request, _ []attach.Prediction) []int { return append(dst, t) }
		}
		list = append(list, o)
	}
	if b.Base.Outputs > 0 {
		add("prediction", func(t *attach.Target) float64 { return t.Value })
	}
	if b.IntervalModel == nil {
		return list
	}
	add("median", func(t *attach.Target) float64 { return t.Median })
	add("lower", func(t *attach.Target) float64 { return t.Lower })
	add("upper", func(t *attach.Target) float64 { return t.Upper })
	o := output{name: quantilesOutput, datatype: "FP64", shape: []int{-1, -1}, optional: true}
	o.appendAxes = func(dst []int, r *request, _ []attach.Prediction) []int { return append(dst, len(r.levels)) }
	if t > 1 {
		o.shape = []int{-1, t, -1}
		o.appendAxes = func(dst []int, r *request, _ []attach.Prediction) []int { return append(dst, t, len(r.levels)) }
	}
	o.number = func(p *attach.Prediction, i int) float64 {
		n := len(p.Targets[0].Quantiles)
		return p.Targets[i/n].Quantiles[i%n]
	}
	return append(list, o)
}

// appendShape appends the shape of the output, for all rows, to dst.
func (o *output) appendShape(dst []int, r *request, all []attach.Prediction) []int {
	dst = append(dst, len(all))
	if o.appendAxes != nil {
		dst = o.appendAxes(dst, r, all)
	}
	return dst
}

// rowWidth returns the number of values in each row of a tensor of the given shape.
func rowWidth(shape []int) int {
	n := 1
	for _, d := range shape[1:] {
		n *= d
	}
	return n
}

// appendBinary appends the values of all rows in little-endian order.
func (o *output) appendBinary(dst []byte, all []attach.Prediction, width int) []byte {
	for row := range all {
		p := &all[row]
		if o.text != nil {
			text := o.text(p)
			dst = append(binary.LittleEndian.AppendUint32(dst, uint32(len(text))), text...)
			continue
		}
		for i := range width {
			switch v := o.number(p, i); o.datatype {
			case "BOOL":
				dst = append(dst, byte(v))
			case "INT64":
				dst = binary.LittleEndian.AppendUint64(dst, uint64(int64(v)))
			default:
				dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
			}
		}
	}
	return dst
}

// binarySize returns the number of bytes that appendBinary appends.
func (o *output) binarySize(all []attach.Prediction, width int) int {
	if o.text == nil {
		return len(all) * width * elementSize(o.datatype)
	}
	n := 0
	for row := range all {
		n += 4 + len(o.text(&all[row]))
	}
	return n
}

// contents returns the values of all rows as typed contents of a gRPC message.
func (o *output) contents(all []attach.Prediction, width int) *inference.InferTensorContents {
	c := &inference.InferTensorContents{}
	for row := range all {
		p := &all[row]
		if o.text != nil {
			c.BytesContents = append(c.BytesContents, []byte(o.text(p)))
			continue
		}
		for i := range width {
			switch v := o.number(p, i); o.datatype {
			case "BOOL":
				c.BoolContents = append(c.BoolContents, v != 0)
			case "INT64":
				c.Int64Contents = append(c.Int64Contents, int64(v))
			default:
				c.Fp64Contents = append(c.Fp64Contents, v)
			}
		}
	}
	return c
}

// appendJSON appends the values of all rows as a flat JSON array. NaN and infinities become
// null, because JSON numbers cannot represent them.
func (o *output) appendJSON(dst []byte, all []attach.Prediction, width int) []byte {
	dst = append(dst, '[')
	comma := func() {
		if dst[len(dst)-1] != '[' {
			dst = append(dst, ',')
		}
	}
	for row := range all {
		p := &all[row]
		if o.text != nil {
			comma()
			dst = appendString(dst, o.text(p))
			continue
		}
		for i := range width {
			comma()
			switch v := o.number(p, i); {
			case o.datatype == "BOOL":
				dst = strconv.AppendBool(dst, v != 0)
			case o.datatype == "INT64":
				dst = strconv.AppendInt(dst, int64(v), 10)
			default:
				dst = appendNumber(dst, v)
			}
		}
	}
	return append(dst, ']')
}

// appendNumber appends a number, or null if it is NaN or infinite.
func appendNumber(dst []byte, v float64) []byte {
	if v-v != 0 {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}

// appendString appends a text as a JSON string.
func appendString(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for _, r := range text { // invalid UTF-8 becomes U+FFFD
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ' || r == 0x7f:
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
