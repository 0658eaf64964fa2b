package batchparts

import (
	"fmt"
)

// Widths holds the number of columns of each part, by name.
type Widths map[string]int

// Names returns the names of the parts in their usual order. It ignores unknown names.
func (w Widths) Names() []string { return Names(func(name string) bool { return w[name] > 0 }, true) }

// Check returns a *WidthError for the first part whose width differs from want, or for a
// different number of earlier layers. It ignores parts that are missing in w or in want.
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

// Layers returns the number of earlier layers.
func (w Widths) Layers() int {
	n := 0
	for w[Layer(n)] > 0 {
		n++
	}
	return n
}

// WidthError is an error about rows with a wrong number of columns or of earlier layers.
type WidthError struct {
	Rows string // which rows, for example "the rows"
	Says string // the source of Want as a clause, for example "the fit used"
	Part string // name of the part, or "earlier layers"
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
