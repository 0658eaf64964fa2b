package ood

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/rows"
)

// Param declares a parameter of a method: help, checks and documentation come
// from it. Number, Flag and Choice make one.
type Param struct {
	Name    string
	Default any // float64, bool or string
	choices []string
	least   float64
	most    float64
	above   bool // least itself is not allowed
	below   bool // most itself is not allowed
	whole   bool // no fractions
	share   bool // but those below 1
	widths  bool // several, joined by "x"
	sweep   []any
}

// Number is a parameter that takes finite numbers.
func Number(name string, otherwise float64) Param {
	return Param{Name: name, Default: otherwise, least: math.Inf(-1), most: math.Inf(1)}
}

// Count is a parameter that takes whole numbers of at least 1.
func Count(name string, otherwise float64) Param {
	p := Number(name, otherwise).AtLeast(1).AtMost(math.MaxInt32)
	p.whole = true
	return p
}

// Share is a parameter that takes whole numbers, and shares below 1 of a number
// that the method knows.
func Share(name string, otherwise float64) Param {
	p := Count(name, otherwise).AtLeast(0)
	p.share = true
	return p
}

// LayerWidths is a parameter that takes the widths of layers: a whole number, or
// several joined as in "64x32".
func LayerWidths(name string, otherwise float64) Param {
	p := Count(name, otherwise)
	p.widths = true
	return p
}

// Flag is a parameter that takes true and false.
func Flag(name string, otherwise bool) Param { return Param{Name: name, Default: otherwise} }

// Choice is a parameter that takes one of several strings, the first by
// default.
func Choice(name string, choices ...string) Param {
	return Param{Name: name, Default: choices[0], choices: choices}
}

// AtLeast bounds a number.
func (p Param) AtLeast(least float64) Param { p.least, p.above = least, false; return p }

// Above bounds a number that must not be the bound itself.
func (p Param) Above(least float64) Param { p.least, p.above = least, true; return p }

// AtMost bounds a number.
func (p Param) AtMost(most float64) Param { p.most, p.below = most, false; return p }

// Below bounds a number that must not be the bound itself.
func (p Param) Below(most float64) Param { p.most, p.below = most, true; return p }

// Over lists what a sweep tries.
func (p Param) Over(values ...any) Param {
	p.sweep = nil
	for _, v := range values {
		if n, ok := v.(int); ok {
			v = float64(n)
		}
		p.sweep = append(p.sweep, v)
	}
	return p
}

// check says what is wrong with a value.
func (p Param) check(value any) error {
	switch p.Default.(type) {
	case bool:
		if _, ok := value.(bool); !ok {
			return fmt.Errorf("parameter %q must be true or false, not %#v", p.Name, value)
		}
	case string:
		if s, ok := value.(string); !ok || !slices.Contains(p.choices, s) {
			return fmt.Errorf("parameter %q must be one of %s, not %#v", p.Name, strings.Join(p.choices, ", "), value)
		}
	default:
		if text, ok := value.(string); ok && p.widths {
			for width := range strings.SplitSeq(text, "x") {
				n, err := strconv.ParseFloat(width, 64)
				if err != nil {
					return fmt.Errorf("parameter %q must be a whole number, or several joined by \"x\", not %q", p.Name, text)
				}
				if err := p.check(n); err != nil {
					return err
				}
			}
			return nil
		}
		n, ok := value.(float64)
		switch {
		case !ok:
			return fmt.Errorf("parameter %q must be a number, not %#v", p.Name, value)
		case !rows.Finite(n) || n < p.least || n > p.most || p.above && n == p.least || p.below && n == p.most ||
			p.whole && n != math.Trunc(n) && !(p.share && n < 1):
			return fmt.Errorf("parameter %q must be %s, not %v", p.Name, p.allowed(), n)
		}
	}
	return nil
}

// allowed says which numbers are, as in "a whole number of at least 1".
func (p Param) allowed() string {
	what := "a finite number"
	switch {
	case p.share:
		what = "a whole number or a share below 1,"
	case p.whole:
		what = "a whole number"
	}
	var bounds []string
	if !math.IsInf(p.least, 0) {
		bounds = append(bounds, map[bool]string{true: "above ", false: "at least "}[p.above]+format(p.least))
	}
	if !math.IsInf(p.most, 0) && p.most != math.MaxInt32 {
		bounds = append(bounds, map[bool]string{true: "below ", false: "at most "}[p.below]+format(p.most))
	}
	if len(bounds) == 0 {
		return what
	}
	if strings.HasPrefix(bounds[0], "at ") {
		what += " of"
	}
	return what + " " + strings.Join(bounds, " and ")
}

// Values are the checked parameters of one configuration, defaults included.
// Asking for one that the method did not declare panics.
type Values struct{ of Params }

// Has says whether the method declares the parameter.
func (v Values) Has(name string) bool { _, ok := v.of[name]; return ok }

// Float is a number.
func (v Values) Float(name string) float64 { return valueOf[float64](v, name) }

// Int is a number, cut to a whole one.
func (v Values) Int(name string) int { return int(valueOf[float64](v, name)) }

// Bool is a truth value.
func (v Values) Bool(name string) bool { return valueOf[bool](v, name) }

// Text is a string.
func (v Values) Text(name string) string { return valueOf[string](v, name) }

// Widths reads widths, from the input on.
func (v Values) Widths(name string) []int {
	var widths []int
	for width := range strings.SplitSeq(format(v.of[name]), "x") {
		n, _ := strconv.ParseFloat(width, 64)
		widths = append(widths, int(n))
	}
	return widths
}

// Count reads a Share of n: a number of them, or a share below 1, of which there
// is at least one.
func (v Values) Count(name string, n int) int {
	k := v.Float(name)
	if k > 0 && k < 1 {
		return max(1, int(k*float64(n)))
	}
	return int(k)
}

func valueOf[T any](v Values, name string) T {
	value, ok := v.of[name].(T)
	if !ok {
		panic(fmt.Sprintf("ood: the method declares no %T parameter %q", value, name))
	}
	return value
}

// resolve checks p and puts defaults where it is silent.
func (m Method) resolve(p Params) (Values, error) {
	v := Values{of: Params{}}
	known := map[string]bool{}
	for _, d := range m.Params {
		known[d.Name] = true
		v.of[d.Name] = d.Default
		if value, ok := p[d.Name]; ok {
			if n, ok := value.(int); ok {
				value = float64(n)
			}
			if err := d.check(value); err != nil {
				return v, err
			}
			v.of[d.Name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		switch {
		case known[name]:
		case len(known) == 0:
			return v, fmt.Errorf("unknown parameter %q: there are none", name)
		default:
			return v, fmt.Errorf("unknown parameter %q: there are %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	return v, nil
}

// grid is every combination of what the parameters are swept over, the first
// parameter changing last.
func grid(declared []Param) []Params {
	all := []Params{{}}
	for _, d := range declared {
		if d.sweep == nil {
			continue
		}
		var longer []Params
		for _, p := range all {
			for _, value := range d.sweep {
				q := maps.Clone(p)
				q[d.Name] = value
				longer = append(longer, q)
			}
		}
		all = longer
	}
	if len(all[0]) == 0 {
		return nil
	}
	return all
}
