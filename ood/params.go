package ood

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// String lists the parameters by name, as in "k=100 lambda=10 loss=bce".
func (p Params) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(name)
		b.WriteByte('=')
		b.WriteString(format(p[name]))
	}
	return b.String()
}

func format(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}

// ParseParams reads what String writes: name=value pairs separated by spaces
// or commas. A value that reads as a finite number is one, true and false are
// bools, and anything else is a string.
func ParseParams(s string) (Params, error) {
	p := Params{}
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' }) {
		name, value, ok := strings.Cut(f, "=")
		if !ok || name == "" || value == "" {
			return nil, fmt.Errorf("parameter %q is not of the form name=value", f)
		}
		if _, twice := p[name]; twice {
			return nil, fmt.Errorf("parameter %q is given twice", name)
		}
		if x, err := strconv.ParseFloat(value, 64); err == nil && !math.IsNaN(x) && !math.IsInf(x, 0) {
			p[name] = x
		} else if value == "true" || value == "false" {
			p[name] = value == "true"
		} else {
			p[name] = value
		}
	}
	return p, nil
}

// With returns the method's default parameters with those of p in place of
// them. A name that the method does not declare is an error, and so is a value
// that it does not allow.
func (m Method) With(p Params) (Params, error) {
	v, err := m.resolve(p)
	if err != nil {
		return nil, fmt.Errorf("method %q: %w", m.Name, err)
	}
	return v.of, nil
}

// ParamReader reads typed values out of Params and remembers the first thing
// wrong. A method's Fit reads every parameter it knows and then asks Err.
type ParamReader struct {
	p    Params
	read map[string]bool
	err  error
}

// Reader starts reading p.
func (p Params) Reader() *ParamReader {
	return &ParamReader{p: p, read: map[string]bool{}}
}

// Float returns a number, or def where p has none of that name.
func (r *ParamReader) Float(name string, def float64) float64 {
	v, ok := r.value(name)
	if !ok {
		return def
	}
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			r.fail("parameter %q must be finite, not %v", name, v)
			return def
		}
		return v
	case int:
		return float64(v)
	}
	r.fail("parameter %q must be a number, not %#v", name, v)
	return def
}

// Positive is Float for a number above zero.
func (r *ParamReader) Positive(name string, def float64) float64 {
	x := r.Float(name, def)
	if x <= 0 {
		r.fail("parameter %q must be positive, not %v", name, x)
	}
	return x
}

// NonNegative is Float for a number that is zero or more.
func (r *ParamReader) NonNegative(name string, def float64) float64 {
	x := r.Float(name, def)
	if x < 0 {
		r.fail("parameter %q must be zero or positive, not %v", name, x)
	}
	return x
}

// Int is Float for a whole number.
func (r *ParamReader) Int(name string, def int) int {
	x := r.Float(name, float64(def))
	if x != math.Trunc(x) || math.Abs(x) > 1<<31 {
		r.fail("parameter %q must be a whole number, not %v", name, x)
		return def
	}
	return int(x)
}

// Count is Int for a number of at least 1.
func (r *ParamReader) Count(name string, def int) int {
	n := r.Int(name, def)
	if n < 1 {
		r.fail("parameter %q must be at least 1, not %d", name, n)
	}
	return n
}

// Between is Int for a number from least to most, which bounds what a parameter
// asks of memory.
func (r *ParamReader) Between(name string, def, least, most int) int {
	n := r.Int(name, def)
	if n < least || n > most {
		r.fail("parameter %q must be at least %d and at most %d, not %d", name, least, most, n)
	}
	return n
}

// Bool returns a truth value, or def where p has none of that name.
func (r *ParamReader) Bool(name string, def bool) bool {
	v, ok := r.value(name)
	if !ok {
		return def
	}
	b, ok := v.(bool)
	if !ok {
		r.fail("parameter %q must be true or false, not %#v", name, v)
		return def
	}
	return b
}

// OneOf returns a string that must be one of choices, or the first of them
// where p has none of that name.
func (r *ParamReader) OneOf(name string, choices ...string) string {
	v, ok := r.value(name)
	if !ok {
		return choices[0]
	}
	s, ok := v.(string)
	if !ok || !slices.Contains(choices, s) {
		r.fail("parameter %q must be one of %s, not %#v", name, strings.Join(choices, ", "), v)
		return choices[0]
	}
	return s
}

// Err returns the first mistake: a value of the wrong type or range, or else a
// parameter that nobody read.
func (r *ParamReader) Err() error {
	if r.err != nil {
		return r.err
	}
	for _, name := range slices.Sorted(maps.Keys(r.p)) {
		if r.read[name] {
			continue
		}
		if len(r.read) == 0 {
			return fmt.Errorf("unknown parameter %q: there are none", name)
		}
		return fmt.Errorf("unknown parameter %q: there are %s", name, strings.Join(slices.Sorted(maps.Keys(r.read)), ", "))
	}
	return nil
}

func (r *ParamReader) value(name string) (any, bool) {
	r.read[name] = true
	v, ok := r.p[name]
	return v, ok
}

func (r *ParamReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}
