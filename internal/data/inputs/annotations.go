package inputs

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/display"
)

// annotations collects the targets and groups of images or arrays, row by row.
type annotations struct {
	o     Options
	known bool     // whether names has been chosen
	names []string // names of targets
	// targets has len(names) numbers for each row. groups has one text for each row, or is
	// nil if Options.Groups is empty.
	targets    []float32
	groups     []string
	targetsErr error // reason why targets are ignored
}

// add adds the targets and the group of a row. value returns the row's content under a
// name, and locate adds the row's position to an error. If Options.Targets is nil, the
// target is the first of defaults that the first row has. If any row has no valid value
// for this target, the targets of all rows are ignored. If Options.SkipOdd is set, optional
// targets in Options.Targets are ignored in the same case.
func (a *annotations) add(value func(name string) (cell, error), locate func(error) error, defaults ...string) error {
	if !a.known {
		a.chooseTargets(value, defaults)
	}
	if a.o.Groups != "" {
		group, err := value(a.o.Groups)
		if err != nil {
			return locate(err)
		}
		a.groups = append(a.groups, strings.Clone(group.asName()))
	}
	for _, name := range a.names {
		c, err := value(name)
		v, problem := a.o.target(&c)
		if err == nil && problem == "" {
			a.targets = append(a.targets, v)
			continue
		}
		if err == nil {
			err = fmt.Errorf("its %.100q: %s", name, problem)
			if a.o.mayNameClass(&c) {
				err = &ClassNameError{err.Error()}
			}
		}
		if a.o.Targets != nil && !(a.o.TargetOptional && a.o.SkipOdd) {
			return locate(err)
		}
		a.names, a.targets, a.targetsErr = nil, nil, locate(err)
		break
	}
	return nil
}

func (a *annotations) chooseTargets(value func(name string) (cell, error), defaults []string) {
	a.known = true
	has := func(name string) bool {
		_, err := value(name)
		return err == nil
	}
	switch {
	case a.o.Labels, a.o.NoTargets: // labels come from folders, or targets are not needed
	case a.o.Targets == nil:
		if i := slices.IndexFunc(defaults, has); i >= 0 {
			a.names = defaults[i : i+1]
		}
	case !a.o.TargetOptional || slices.ContainsFunc(a.o.Targets, has):
		a.names = a.o.Targets
	}
}

// target returns the number in a cell, NaN for a missing value, or the number of the class
// that the cell names. For any other cell, problem describes why there is no target.
func (o Options) target(c *cell) (v float32, problem string) {
	i := -1
	if o.namesClass(c) {
		i = slices.Index(o.Classes, c.asName()) // None and NA can be class names
	}
	switch {
	case i >= 0:
		return float32(i), ""
	case c.isMissing():
		return float32(math.NaN()), ""
	case o.namesClass(c):
		return 0, fmt.Sprintf("%.40q is neither a number nor the name of a class; classes are %s", c.asName(), display.List(o.Classes, 10))
	}
	return c.finiteNumber()
}

// mayNameClass reports whether a cell may contain a class name while the class names are
// unknown.
func (o Options) mayNameClass(c *cell) bool {
	guess, _ := otherNotation(c.text)
	return o.Classes == nil && c.isText() && guess == ""
}

// namesClass reports whether a cell contains a class name, or a text that should be one. It
// returns false if class names are unknown.
func (o Options) namesClass(c *cell) bool {
	return o.Classes != nil && c.kind == text && c.asName() != "" && !isNumeric(c.text)
}

// annotate adds the collected labels, targets and groups to s. Errors contain path.
func (a *annotations) annotate(s *Set, path string) error {
	s.Odd = a.targetsErr
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
