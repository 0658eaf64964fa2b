package serve

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// request is a parsed request for predictions, from REST or gRPC.
type request struct {
	id           string
	inputs       []tensor
	outputs      []requestedOutput // empty means the default outputs
	binaryOutput bool              // whether outputs are sent as binary data if their format is defaultFormat

	// The fields below are parameters. A parameter that is 0, false or empty was not
	// given. Then alpha and level have the values in the .attach file.
	alpha, level               float64
	quantiles                  string
	levels                     []float64 // parsed from quantiles
	sets                       string    // name of the set score, or "none"
	setsByClass, setsByCluster bool
	timeout                    time.Duration
	cancel                     bool // only in feedback: whether rows end to wait without targets
}

// requestedOutput is an output that a client requests by name.
type requestedOutput struct {
	name   string
	format format
}

// format is the format in which an output is sent.
type format int

const (
	defaultFormat format = iota
	binaryFormat
	jsonFormat
)

// reset clears the request but keeps its buffers.
func (r *request) reset() {
	*r = request{inputs: r.inputs[:0], outputs: r.outputs[:0], levels: r.levels[:0]}
}

// addInput appends an empty input and returns it. Its shape reuses the memory of an earlier
// input.
func (r *request) addInput() *tensor {
	n := len(r.inputs)
	r.inputs = slices.Grow(r.inputs, 1)[:n+1]
	t := &r.inputs[n]
	*t = tensor{shape: t.shape[:0]}
	return t
}

// setParameter sets a parameter of the request.
func (r *request) setParameter(name string, v parameter) (err error) {
	switch name {
	case "alpha":
		r.alpha, err = v.fraction(name)
	case "level":
		r.level, err = v.fraction(name)
	case "quantiles":
		r.quantiles = string(v)
		r.levels, err = v.fractions(name, r.levels[:0])
	case "sets":
		switch r.sets = string(v); {
		case v == "":
			err = badRequestf("the parameter sets is empty: leave it out, or use none")
		case len(v) > 100:
			err = badRequestf("the parameter sets has %d characters", len(v))
		}
	case "sets_by_class":
		r.setsByClass, err = v.bool(name)
	case "sets_by_cluster":
		r.setsByCluster, err = v.bool(name)
	case "timeout":
		var us float64
		if us, err = v.number(name); err == nil && !(us >= 0) {
			err = badRequestf("the parameter timeout is %v; it must be a number of microseconds that is not negative", us)
		}
		r.timeout = time.Duration(min(us, 1e15) * float64(time.Microsecond))
	case "binary_data_output":
		r.binaryOutput, err = v.bool(name)
	case "cancel":
		r.cancel, err = v.bool(name)
	case "priority", "content_type", "headers", "sequence_id", "sequence_start", "sequence_end":
		// Some clients send these parameters. They do not affect the response.
	default:
		// Unknown names are rejected, because a misspelled alpha would otherwise be
		// ignored.
		err = badRequestf("a request has no parameter %.100q; it has alpha, level, quantiles, sets, sets_by_class, sets_by_cluster, timeout and binary_data_output", name)
	}
	return err
}

// parameter is the value of a parameter in text form.
type parameter string

// number parses a number. name is the name of the parameter for error messages.
func (v parameter) number(name string) (float64, error) {
	x, err := strconv.ParseFloat(strings.TrimSpace(string(v)), 64)
	if err != nil {
		return 0, badRequestf("the parameter %s is %.100q; it must be a number", name, v)
	}
	return x, nil
}

// fraction parses a number that must be above 0 and below 1.
func (v parameter) fraction(name string) (float64, error) {
	x, err := v.number(name)
	if err == nil && !(x > 0 && x < 1) {
		err = badRequestf("the parameter %s is %v; it must be between 0 and 1", name, x)
	}
	return x, err
}

// maxQuantiles is the maximum number of quantiles in a request.
const maxQuantiles = 100

// fractions parses a list such as "0.1,0.5,0.9" and appends its numbers to dst.
func (v parameter) fractions(name string, dst []float64) ([]float64, error) {
	if len(v) > 32*maxQuantiles {
		return dst, badRequestf("the parameter %s has %d characters, but at most %d are allowed", name, len(v), 32*maxQuantiles)
	}
	for field := range strings.SplitSeq(string(v), ",") {
		x, err := parameter(field).fraction(name)
		switch {
		case err != nil:
			return dst, badRequestf("the parameter %s is %.100q; it must be numbers between 0 and 1, separated by commas", name, v)
		case slices.Contains(dst, x):
			return dst, badRequestf("the parameter %s names %v twice", name, x)
		case len(dst) == maxQuantiles:
			return dst, badRequestf("the parameter %s has more than %d numbers", name, maxQuantiles)
		}
		dst = append(dst, x)
	}
	return dst, nil
}

// bool parses a boolean in a form that strconv.ParseBool accepts.
func (v parameter) bool(name string) (bool, error) {
	x, err := strconv.ParseBool(string(v))
	if err != nil {
		return false, badRequestf("the parameter %s is %.100q; it must be true or false", name, v)
	}
	return x, nil
}

// parse parses the body of a REST request: JSON text, followed by the binary data of some
// inputs.
func (r *request) parse(text, binary []byte) error {
	s := scanner{text: text}
	remaining := binary
	err := s.object(func(key string) error {
		switch key {
		case "id":
			id, err := s.string()
			r.id = id
			return err
		case "parameters":
			return s.object(func(name string) error {
				v, err := s.parameter()
				if err != nil {
					return err
				}
				return r.setParameter(name, v)
			})
		case "inputs":
			return s.array(func() error { return s.input(r.addInput(), &remaining) })
		case "outputs":
			return s.array(func() error { return s.output(r) })
		}
		_, err := s.skip()
		return err
	})
	if err == nil {
		err = s.end()
	}
	if _, isStatus := err.(*statusError); err != nil && !isStatus {
		err = badRequestf("the request is not valid JSON for inference: %v", err)
	}
	if err == nil && len(remaining) > 0 {
		err = badRequestf("%d more bytes follow the binary data of the inputs", len(remaining))
	}
	return err
}

// parameter reads the value of a parameter: a string, a number or a boolean. For other
// values, it returns the JSON text.
func (s *scanner) parameter() (v parameter, err error) {
	var text string
	switch c := s.peek(); {
	case c == '"':
		text, err = s.string()
	case c == 't' || c == 'f':
		var value bool
		value, err = s.bool()
		text = strconv.FormatBool(value)
	case c == '[' || c == '{' || c == 'n':
		var raw []byte
		raw, err = s.skip()
		text = view(raw)
	default:
		text, _, err = s.number()
	}
	return parameter(text), err
}

// input reads an input into t. If its data is binary, input removes the data from the
// beginning of remaining.
func (s *scanner) input(t *tensor, remaining *[]byte) error {
	length := int64(-1)
	err := s.object(func(key string) (err error) {
		switch key {
		case "name":
			t.name, err = s.string()
		case "datatype":
			t.datatype, err = s.string()
		case "shape":
			t.shape = t.shape[:0]
			err = s.array(func() error {
				d, err := s.integer()
				if err == nil && len(t.shape) > maxAxes {
					err = fmt.Errorf("a shape has more than %d axes", maxAxes)
				}
				t.shape = append(t.shape, clamp(d))
				return err
			})
		case "data":
			t.text, err = s.skip()
		case "parameters":
			err = s.object(func(name string) error {
				if name != "binary_data_size" {
					_, err := s.skip()
					return err
				}
				length, err = s.integer()
				if err == nil && length < 0 {
					err = badRequestf("binary_data_size is %d; it must not be negative", length)
				}
				return err
			})
		default:
			_, err = s.skip()
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case length >= 0 && t.text != nil:
		return badRequestf("the input %.100q has both data and binary_data_size", t.name)
	case length < 0 && t.text == nil:
		return badRequestf("the input %.100q has neither data nor binary_data_size", t.name)
	case length > int64(len(*remaining)):
		return badRequestf("the input %.100q has the binary_data_size %d, but only %d bytes are left", t.name, length, len(*remaining))
	case length >= 0:
		t.raw = (*remaining)[:length:length]
		*remaining = (*remaining)[length:]
	}
	return t.validate()
}

// output reads a requested output and appends it to r.outputs.
func (s *scanner) output(r *request) error {
	var w requestedOutput
	err := s.object(func(key string) (err error) {
		switch key {
		case "name":
			w.name, err = s.string()
		case "parameters":
			err = s.object(func(name string) error {
				v, err := s.parameter()
				if err != nil {
					return err
				}
				return w.setParameter(name, v)
			})
		default:
			_, err = s.skip()
		}
		return err
	})
	r.outputs = append(r.outputs, w)
	return err
}

// setParameter sets a parameter of an output.
func (w *requestedOutput) setParameter(name string, v parameter) error {
	switch name {
	case "binary_data":
		binary, err := v.bool(name)
		if w.format = jsonFormat; binary {
			w.format = binaryFormat
		}
		return err
	case "classification":
		if v != "0" {
			return badRequestf("the output %.100q cannot be sent as a classification: use the outputs class and confidence", w.name)
		}
	}
	return nil
}

// clamp converts the size of an axis to int. A size that does not fit becomes the nearest
// int, which validate rejects as too large or negative.
func clamp(d int64) int { return int(min(max(d, math.MinInt), math.MaxInt)) }
