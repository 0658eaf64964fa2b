package inputs

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach"
)

// Takes describes an input of the model.
type Takes attach.Input

// whole reports whether the input consists of integers.
func (t Takes) whole() bool {
	return strings.HasPrefix(t.DType, "int") || strings.HasPrefix(t.DType, "uint")
}

// text reports whether the input consists of texts.
func (t Takes) text() bool { return strings.EqualFold(t.DType, "string") }

// images reports whether the input may be images.
func (t Takes) images() bool { return t.Shape == nil || len(t.Shape) == 4 }

// width returns how many table columns the input has, 0 if any number.
func (t Takes) width() int {
	switch {
	case len(t.Shape) == 1:
		return 1
	case len(t.Shape) == 2:
		return max(t.Shape[1], 0)
	}
	return 0
}

// row returns the shape of a row that comes as n numbers. For a single number, or a list of
// one, it is the input's own shape.
func (t Takes) row(shape []int) []int {
	switch {
	case len(t.Shape) == 1 && len(shape) == 1 && shape[0] == 1:
		return []int{}
	case len(t.Shape) != 1 && len(shape) == 0:
		return []int{1}
	}
	return shape
}

func (t Takes) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the model's input %q (%s", t.Name, strings.ToLower(t.DType))
	if t.Shape != nil {
		b.WriteString(" n")
		for _, d := range t.Shape[min(1, len(t.Shape)):] {
			b.WriteString("×" + strings.ReplaceAll(strconv.Itoa(d), "-1", "?"))
		}
	}
	b.WriteString(")")
	return b.String()
}

// named returns the input with a name, or nil.
func named(takes []Takes, name string) *Takes {
	for i := range takes {
		if takes[i].Name == name {
			return &takes[i]
		}
	}
	return nil
}

// required returns the inputs that rows must have.
func required(takes []Takes) (list []Takes) {
	for _, t := range takes {
		if !t.Optional {
			list = append(list, t)
		}
	}
	return list
}

// only returns the single input that rows must have. It has no name if that is unknown, or if
// there are several inputs.
func only(takes []Takes) Takes {
	if list := required(takes); len(list) == 1 {
		return list[0]
	}
	return Takes{}
}
