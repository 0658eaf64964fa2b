package ood

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Params holds the parameters of a method by name. Values are float64, string or bool; numbers
// of other types are converted to float64. A method gets all of its declared parameters, with
// checked values.
type Params map[string]any

// Float returns the number with this name. It panics if the method declares no such number.
func (p Params) Float(name string) float64 {
	n, ok := p[name].(float64)
	if !ok {
		panic(fmt.Sprintf("ood: the method declares no number %q", name))
	}
	return n
}

// Int returns the number with this name, truncated to an integer.
func (p Params) Int(name string) int { return int(p.Float(name)) }

// Count returns how many of n things a parameter asks for. A parameter between 0 and 1 is a
// fraction of n, and the result is at least 1. Otherwise the result is the parameter itself,
// truncated to an integer.
func (p Params) Count(name string, n int) int {
	k := p.Float(name)
	if k > 0 && k < 1 {
		return max(1, int(k*float64(n)))
	}
	return int(k)
}

// String returns the parameters sorted by name, for example "k=100 lambda=10 loss=bce".
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
