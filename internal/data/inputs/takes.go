package inputs

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach"
)

// Takes describes an input of the model.
type Takes attach.Input

// isInteger reports whether the input consists of integers.
func (t Takes) isInteger() bool {
	return strings.HasPrefix(t.DType, "int") || strings.HasPrefix(t.DType, "uint")
}

// isText reports whether the input consists of texts.
func (t Takes) isText() bool { return strings.EqualFold(t.DType, "string") }

// canBeImages reports whether the input can consist of images.
func (t Takes) canBeImages() bool { return t.Shape == nil || len(t.Shape) == 4 }

// width returns how many table columns the input has, or 0 for any number.
func (t Takes) width() int {
	switch {
	case len(t.Shape) == 1:
		return 1
	case len(t.Shape) == 2:
		return max(t.Shape[1], 0)
	}
	return 0
}

// rowShape returns the shape of a row in the tensor, given the row's shape in a file. A
// single number and a list of one number are converted to the form that the input takes.
func (t Takes) rowShape(shape []int) []int {
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

// inputNamed returns the input with the given name, or nil.
func inputNamed(takes []Takes, name string) *Takes {
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

// onlyInput returns the single required input. If inputs are unknown or several are
// required, it returns an input without a name.
func onlyInput(takes []Takes) Takes {
	if list := required(takes); len(list) == 1 {
		return list[0]
	}
	return Takes{}
}
