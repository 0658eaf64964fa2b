package ood

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Params holds a method's hyper-parameters by name: float64, string or bool. Numbers of other
// types are converted to float64. The parameters that a method gets are complete and checked.
// Asking for a number that is not declared panics.
type Params map[string]any

// Float returns a number.
func (p Params) Float(name string) float64 {
	n, ok := p[name].(float64)
	if !ok {
		panic(fmt.Sprintf("ood: the method declares no number %q", name))
	}
	return n
}

// Int returns a number, truncated to an integer.
func (p Params) Int(name string) int { return int(p.Float(name)) }

// Count returns a number of things out of n: the parameter itself or, if it is below 1, that
// fraction of n, but at least one.
func (p Params) Count(name string, n int) int {
	k := p.Float(name)
	if k > 0 && k < 1 {
		return max(1, int(k*float64(n)))
	}
	return int(k)
}

// String lists the parameters by name, for example "k=100 lambda=10 loss=bce".
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
