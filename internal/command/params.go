package command

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/ood"
)

// parseParams reads what the String of parameters writes: name=value pairs separated by spaces
// or commas. A value that reads as a finite number is one, true and false are
// bools, and anything else is a string.
func parseParams(s string) (ood.Params, error) {
	p := ood.Params{}
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
