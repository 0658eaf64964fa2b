package fitting

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// Default returns the default configuration of a method.
func Default(m ood.Method) ood.Params {
	p, _ := resolve(m, nil) // resolve fails only for an invalid declaration, and Fit reports it
	return p
}

// Grid returns the configurations that a sweep over the parameters tries. It returns nil if
// the method has no sweep.
func Grid(m ood.Method) []ood.Params {
	if m.Sweep != nil {
		return m.Sweep
	}
	return grid(m.Params)
}

// With returns the default parameters of the method, overridden by p. It returns an error
// for an unknown name or an invalid value.
func With(m ood.Method, p ood.Params) (ood.Params, error) {
	v, err := resolve(m, p)
	if err != nil {
		return nil, fmt.Errorf("method %q: %w", m.Name, err)
	}
	return v, nil
}

// limits is the parsed form of ood.Param.Takes.
type limits struct {
	choices      []string
	lower        float64
	upper        float64
	excludeLower bool // values must be above lower
	excludeUpper bool // values must be below upper
	integer      bool // values must be integers
	orFraction   bool // values may also be fractions below 1
	widths       bool // values may also be several integers joined by "x"
}

// parseLimits parses p.Takes.
func parseLimits(p ood.Param) (limits, error) {
	l := limits{lower: math.Inf(-1), upper: math.Inf(1)}
	for word := range strings.SplitSeq(p.Takes, ",") {
		word, value, _ := strings.Cut(word, "=")
		n, err := strconv.ParseFloat(value, 64)
		switch {
		case word == "of":
			l.choices = strings.Split(value, "|")
		case word == "count" || word == "share" || word == "widths":
			l.integer, l.lower, l.upper = true, 1, math.MaxInt32
			if l.orFraction, l.widths = word == "share", word == "widths"; l.orFraction {
				l.lower = 0
			}
		case word == "positive":
			l.lower, l.excludeLower = 0, true
		case word == "least" && err == nil:
			l.lower = n
		case (word == "most" || word == "below") && err == nil:
			l.upper, l.excludeUpper = n, word == "below"
		case p.Takes != "":
			return l, fmt.Errorf("parameter %q is declared to take %q, but the constraint %q is unknown: package ood lists all constraints", p.Name, p.Takes, word)
		}
	}
	return l, nil
}

// toNumber converts a value of any integer or floating-point type to float64, and returns
// other values unchanged.
func toNumber(value any) any {
	switch v := reflect.ValueOf(value); {
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	case v.CanFloat():
		return v.Float()
	}
	return value
}

// checkValue returns an error if a value is invalid for parameter p.
func checkValue(p ood.Param, value any) error {
	l, err := parseLimits(p)
	if err != nil {
		return err
	}
	switch p.Default.(type) {
	case bool:
		if _, ok := value.(bool); !ok {
			return fmt.Errorf("parameter %q must be true or false, not %#v", p.Name, value)
		}
	case string:
		if s, ok := value.(string); !ok || !slices.Contains(l.choices, s) {
			return fmt.Errorf("parameter %q must be one of %s, not %#v", p.Name, strings.Join(l.choices, ", "), value)
		}
	default:
		if text, ok := value.(string); ok && l.widths {
			for width := range strings.SplitSeq(text, "x") {
				n, err := strconv.ParseFloat(width, 64)
				if err != nil {
					return fmt.Errorf("parameter %q must be a whole number, or several joined by \"x\", not %q", p.Name, text)
				}
				if err := checkValue(p, n); err != nil {
					return err
				}
			}
			return nil
		}
		n, ok := value.(float64)
		switch {
		case !ok:
			return fmt.Errorf("parameter %q must be a number, not %#v", p.Name, value)
		case !rows.Finite(n) || n < l.lower || n > l.upper || l.excludeLower && n == l.lower || l.excludeUpper && n == l.upper ||
			l.integer && n != math.Trunc(n) && !(l.orFraction && n < 1):
			return fmt.Errorf("parameter %q must be %s, not %v", p.Name, l.allowed(), n)
		}
	}
	return nil
}

// allowed describes the valid numbers in words, for example "a whole number of at least 1".
func (l limits) allowed() string {
	what := "a finite number"
	switch {
	case l.orFraction:
		what = "a whole number or a fraction below 1,"
	case l.integer:
		what = "a whole number"
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	var bounds []string
	if !math.IsInf(l.lower, 0) {
		bounds = append(bounds, map[bool]string{true: "above ", false: "at least "}[l.excludeLower]+number(l.lower))
	}
	if !math.IsInf(l.upper, 0) && l.upper != math.MaxInt32 {
		bounds = append(bounds, map[bool]string{true: "below ", false: "at most "}[l.excludeUpper]+number(l.upper))
	}
	if len(bounds) == 0 {
		return what
	}
	if strings.HasPrefix(bounds[0], "at ") {
		what += " of"
	}
	return what + " " + strings.Join(bounds, " and ")
}

// resolve checks p and returns it with defaults for missing parameters.
func resolve(m ood.Method, p ood.Params) (ood.Params, error) {
	v := ood.Params{}
	known := map[string]bool{}
	for _, d := range m.Params {
		known[d.Name] = true
		v[d.Name] = toNumber(d.Default)
		if _, err := parseLimits(d); err != nil {
			return v, err
		}
		if value, ok := p[d.Name]; ok {
			value = toNumber(value)
			if err := checkValue(d, value); err != nil {
				return v, err
			}
			v[d.Name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		switch {
		case known[name]:
		case len(known) == 0:
			return v, fmt.Errorf("unknown parameter %q; the method has no parameters", name)
		default:
			return v, fmt.Errorf("unknown parameter %q; its parameters are %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	return v, nil
}

// grid returns all combinations of the values that parameters are swept over. The first
// parameter changes slowest. It returns nil if no parameter is swept.
func grid(declared []ood.Param) []ood.Params {
	all := []ood.Params{{}}
	for _, d := range declared {
		if d.Sweep == nil {
			continue
		}
		var extended []ood.Params
		for _, p := range all {
			for _, value := range d.Sweep {
				q := maps.Clone(p)
				q[d.Name] = toNumber(value)
				extended = append(extended, q)
			}
		}
		all = extended
	}
	if len(all[0]) == 0 {
		return nil
	}
	return all
}
