package command

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/modelrows"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
)

// oodSet is one value of --ood: [[GROUP:]NAME=]INPUTS.
type oodSet struct{ group, name, path string }

var oodSetName = regexp.MustCompile(`^(?:([A-Za-z0-9][A-Za-z0-9._+-]*):)?([A-Za-z0-9][A-Za-z0-9._+-]*)$`)

// oodSets holds the values of --ood.
type oodSets []oodSet

// add parses one value of --ood. The text before the first = is a name if it looks like
// one. If the whole value is the path of a file, the set has no name. If the text after the
// = is a path too, the value is ambiguous and an error.
func (sets *oodSets) add(value string) error {
	s := oodSet{path: value}
	head, rest, ok := strings.Cut(value, "=")
	match := oodSetName.FindStringSubmatch(head)
	if ok && match != nil {
		s = oodSet{match[1], match[2], rest}
	}
	if s.path == "" {
		return fmt.Errorf("--ood %s: the inputs after = are missing", value)
	}
	_, err := os.Stat(value)
	if ok && match == nil && err != nil && !strings.ContainsAny(head, `/\`) {
		return fmt.Errorf("--ood %s: %q is not a name; a name has letters, digits and ._+-, and GROUP: before it if it is in a group", value, head)
	}
	if s.name != "" && err == nil {
		if _, err := os.Stat(rest); err == nil {
			return fmt.Errorf("--ood %s may mean the file %[1]s or the file %s; write ./%[1]s for the first or %[3]s=./%[2]s for the second", value, rest, head)
		}
		s = oodSet{path: value}
	}
	for _, other := range *sets {
		if s.name == other.name && s.name != "" {
			return fmt.Errorf("--ood names two sets %q; give each its own name", s.name)
		}
	}
	*sets = append(*sets, s)
	for _, s := range *sets {
		if s.name == "" && len(*sets) > 1 {
			return fmt.Errorf("--ood %s needs a name, because there are several: --ood NAME=%[1]s", s.path)
		}
	}
	return nil
}

func (sets *oodSets) paths() []string {
	var paths []string
	for _, s := range *sets {
		paths = append(paths, s.path)
	}
	return paths
}

// readSetsThroughModel opens the model, reads all sets and runs the model on their rows.
func (m *compareCall) readSetsThroughModel(ctx context.Context) error {
	m.Options.Task = m.task
	if err := m.OpenModel(ctx, m.path, m.Options); err != nil {
		return err
	}
	info := m.Model.Info()
	m.task = cmp.Or(m.task, info.Task)
	if err := cmp.Or(m.checkConflicts(), m.CheckClasses(m.task)); err != nil {
		return err
	}
	t := &m.options.Training
	t.Last = m.Model.Last()
	m.standardised = info.Feature.Standardised
	return m.readSets(func(path string, rows inputs.Slice, outside bool) (ood.Batch, error) {
		classes := m.KeepClasses
		if outside {
			classes, m.Inputs.TargetOptional, m.Inputs.SkipOdd = m.oodClasses, true, len(m.oodClasses) == 0
		}
		m.Unlabelled = outside
		set, err := m.OpenSet(ctx, path, "", rows, classes)
		if err != nil {
			return ood.Batch{}, err
		}
		t.InputScale = m.Inputs.InputScale()
		if !outside && m.task == attach.Classification && set.Labels != nil {
			if err := inputs.CheckLabels(set.Labels, info.OutputsWidth); err != nil {
				return ood.Batch{}, fmt.Errorf("%s: %w", path, err)
			}
		}
		return m.runModel(ctx, path, set, nil)
	})
}

// standardise scales the features of all sets as attach.Fit would, with the scaling of the
// rows to fit on.
func (m *compareCall) standardise() {
	t := &m.options.Training
	s := rows.NewScaling(t.Features)
	if t.Last != nil {
		w, b := s.Layer(t.Last.Weight, t.Last.Bias)
		t.Last = &ood.Linear{Weight: w, Bias: b}
	}
	sets := []*ood.Batch{&t.Batch, &m.options.Test, &m.options.OOD}
	for i := range m.options.OODSets {
		sets = append(sets, &m.options.OODSets[i].Batch)
	}
	for _, b := range sets {
		b.Features = s.Apply(b.Features)
		if b.Network != nil {
			b.Network = standardisedNetwork{b.Network, s}
		}
	}
}

// standardisedNetwork is a network with standardised features.
type standardisedNetwork struct {
	ood.Network
	scaling rows.Scaling
}

func (n standardisedNetwork) Forward(ctx context.Context, x ood.InputBlock) (ood.Batch, error) {
	b, err := n.Network.Forward(ctx, x)
	b.Features = n.scaling.Apply(b.Features)
	return b, err
}

// readSets reads all sets with the function read.
func (m *compareCall) readSets(read func(path string, rows inputs.Slice, outside bool) (ood.Batch, error)) error {
	m.options.Training.Regression = m.task == attach.Regression
	batch := func(path string, rows inputs.Slice, outside bool) (ood.Batch, error) {
		b, err := read(path, rows, outside)
		if outside || m.options.Training.Regression {
			b.Labels = nil
		}
		if m.options.Training.Regression {
			// Methods that read logits expect scores of classes, but a regressor's outputs
			// are targets.
			b.Logits = blas32.General{}
		}
		return b, err
	}
	var err error
	if m.options.Training.Batch, err = batch(m.x, m.rows, false); err != nil {
		return err
	}
	if m.options.Test, err = batch(m.test, m.testRows, false); err != nil {
		return err
	}
	for _, s := range m.ood {
		b, err := batch(s.path, m.oodRows, true)
		if err != nil {
			return err
		}
		if s.name == "" {
			m.options.OOD = b
		} else {
			m.options.OODSets = append(m.options.OODSets, compare.OODSet{Name: s.name, Group: s.group, Batch: b})
		}
	}
	if m.standardised {
		m.standardise()
	}
	return nil
}

// readFeatures reads all sets as precomputed features.
func (m *compareCall) readFeatures() error {
	t := &m.options.Training
	var err error
	if t.Last, err = modelrows.LoadWeights(m.weights); err != nil {
		return err
	}
	m.standardised = inputs.HoldsAny(m.x, "standardised")
	return m.readSets(func(path string, rows inputs.Slice, _ bool) (ood.Batch, error) {
		var widths []inputs.Widths
		if t.Len() > 0 {
			widths = append(widths, requiredWidths(m.x, t.Batch))
		} else if m.readsNoLayers() {
			widths = append(widths, inputs.Widths{Layerless: true})
		}
		b, _, err := modelrows.OpenFeatures(notePrinter(m.stderr), path, rows, m.weights, t.Last, widths...)
		if err == nil {
			noteFeatures(path, m.stderr)
		}
		return b, err
	})
}
