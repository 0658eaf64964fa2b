package inputs

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/display"
)

// answers collects, row by row, the targets and groups that accompany images or arrays.
type answers struct {
	o     Options
	known bool     // whether names is complete
	names []string // of targets
	// targets and groups have one entry for each row.
	targets []float32
	groups  []string
	odd     error // reason why targets are ignored
}

// add adds a row. value returns the row's content under a name, and where adds the position to
// an error. Without Options.Targets, the target is the first of the usual names that the first
// row has, if all rows have it.
func (a *answers) add(value func(name string) (cell, error), where func(error) error, usual ...string) error {
	if !a.known {
		a.choose(value, usual)
	}
	if a.o.Groups != "" {
		group, err := value(a.o.Groups)
		if err != nil {
			return where(err)
		}
		a.groups = append(a.groups, strings.Clone(group.trimmed()))
	}
	for _, name := range a.names {
		c, err := value(name)
		v, wrong := a.o.target(&c)
		if err == nil && wrong == "" {
			a.targets = append(a.targets, v)
			continue
		}
		if err == nil {
			err = fmt.Errorf("its %.100q: %s", name, wrong)
			if a.o.asksNames(&c) {
				err = &ClassNameError{err.Error()}
			}
		}
		if a.o.Targets != nil && !(a.o.TargetOptional && a.o.SkipOdd) {
			return where(err)
		}
		a.names, a.targets, a.odd = nil, nil, where(err)
		break
	}
	return nil
}

func (a *answers) choose(value func(name string) (cell, error), usual []string) {
	a.known = true
	has := func(name string) bool {
		_, err := value(name)
		return err == nil
	}
	switch {
	case a.o.Labels, a.o.NoTargets: // labels are folders
	case a.o.Targets == nil:
		if i := slices.IndexFunc(usual, has); i >= 0 {
			a.names = usual[i : i+1]
		}
	case !a.o.TargetOptional || slices.ContainsFunc(a.o.Targets, has):
		a.names = a.o.Targets
	}
}

// target returns the number in a cell, NaN for an empty cell, or the number of the class that
// the cell names. For other cells it returns what is wrong.
func (o Options) target(c *cell) (v float32, wrong string) {
	i := -1
	if o.named(c) {
		i = slices.Index(o.Classes, c.trimmed()) // None and NA may be names too
	}
	switch {
	case i >= 0:
		return float32(i), ""
	case c.gap():
		return float32(math.NaN()), ""
	case o.named(c):
		return 0, fmt.Sprintf("%.40q is neither a number nor the name of a class; classes are %s", c.trimmed(), display.List(o.Classes, 10))
	}
	return c.finite()
}

// asksNames reports whether a cell may name a class while the class names are unknown.
func (o Options) asksNames(c *cell) bool {
	guess, _ := otherNotation(c.text)
	return o.Classes == nil && c.written() && guess == ""
}

// named reports whether the target is the number of the class that the cell names.
func (o Options) named(c *cell) bool {
	return o.Classes != nil && c.kind == text && c.trimmed() != "" && !numeric(c.text)
}

// annotate adds the collected labels, targets and groups to a set. Errors name path.
func (a *answers) annotate(s *Set, path string) error {
	s.Odd = a.odd
	k := len(a.names)
	y := blas32.General{Rows: s.Len(), Cols: k, Stride: k}
	for i := range s.Len() {
		j := s.Row(i)
		y.Data = append(y.Data, a.targets[j*k:(j+1)*k]...)
		if a.groups != nil {
			s.Groups = append(s.Groups, a.groups[j])
		}
	}
	if k == 0 {
		return nil
	}
	if a.o.Targets != nil {
		s.TargetNames = a.names
	}
	t, err := newTargets(y, path)
	if err != nil {
		return err
	}
	return s.SetTargets(t)
}
