package batchparts

import (
	"fmt"
)

// Widths are the columns of parts, by name.
type Widths map[string]int

// Names are those of the parts, without what no part is called.
func (w Widths) Names() []string { return Names(func(name string) bool { return w[name] > 0 }, true) }

// Check returns a *WidthError for the first part that has other columns than
// want, or for another number of earlier layers; what either lacks is fine.
func (w Widths) Check(want Widths, rows, says string) error {
	if have, other := w.Layers(), want.Layers(); have != other && have > 0 && other > 0 {
		return &WidthError{Rows: rows, Says: says, Part: "earlier layers", Have: have, Want: other}
	}
	for _, name := range w.Names() {
		if n := want[name]; n > 0 && n != w[name] {
			return &WidthError{Rows: rows, Says: says, Part: name, Have: w[name], Want: n}
		}
	}
	return nil
}

// Layers is the number of earlier layers.
func (w Widths) Layers() int {
	n := 0
	for w[Layer(n)] > 0 {
		n++
	}
	return n
}

// WidthError says that rows have other columns than they must have, or another
// number of earlier layers.
type WidthError struct {
	Rows string // which, as in "the rows"
	Says string // what wants them, as in "the fit used"
	Part string // by its name, or "earlier layers"
	Have int
	Want int
}

func (e *WidthError) Error() string {
	what := e.Part
	if _, err := fmt.Sscanf(what, "layer_%d", new(int)); err == nil {
		what = "columns of " + what
	}
	return fmt.Sprintf("%s have %d %s, but %s %d", e.Rows, e.Have, what, e.Says, e.Want)
}
