package attach

import "fmt"

// note says what is missing and what looks wrong with rows or bundle.
func (g *gathering) note(e *Evaluation) {
	add := func(do, format string, args ...any) {
		e.Notes = append(e.Notes, Note{fmt.Sprintf(format, args...), do})
	}
	switch {
	case e.Task == Classification && g.labels == nil:
		add("give labels", "the rows have no labels: whether answers are right is not known")
	case e.Task == Regression && g.targets == nil:
		add("give targets", "the rows have no targets: whether intervals cover is not known")
	}
}
