package ood

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Params are a method's hyper-parameters by name: float64, string or bool. A number of
// another type is taken for a float64. What a method is fitted with is checked, all of its
// parameters are there, and asking for a number that it does not declare panics.
type Params map[string]any

// Float is a number.
func (p Params) Float(name string) float64 {
	n, ok := p[name].(float64)
	if !ok {
		panic(fmt.Sprintf("ood: the method declares no number %q", name))
	}
	return n
}

// Int is a number, cut to a whole one.
func (p Params) Int(name string) int { return int(p.Float(name)) }

// Count reads a share of n: a number of them, or a share below 1, of which there
// is at least one.
func (p Params) Count(name string, n int) int {
	k := p.Float(name)
	if k > 0 && k < 1 {
		return max(1, int(k*float64(n)))
	}
	return int(k)
}

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
