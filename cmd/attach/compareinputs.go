package main

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/inputs"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
)

// outFlag is one value of --out: [[GROUP:]NAME=]INPUTS.
type outFlag struct{ group, name, path string }

var setName = regexp.MustCompile(`^(?:([A-Za-z0-9][A-Za-z0-9._+-]*):)?([A-Za-z0-9][A-Za-z0-9._+-]*)$`)

// parseOutFlag reads one value of --out. What is before the first = is a name
// if it looks like one, unless the whole is a file that is there.
func parseOutFlag(value string) (outFlag, error) {
	head, rest, ok := strings.Cut(value, "=")
	match := setName.FindStringSubmatch(head)
	if !ok || match == nil {
		return outFlag{path: value}, nil
	}
	if _, err := os.Stat(value); err == nil {
		if _, err := os.Stat(rest); err == nil {
			return outFlag{}, usagef("--out %s names the file %[1]s as well as %s; write ./%[1]s for the first or %[3]s=./%[2]s for the second", value, rest, head)
		}
		return outFlag{path: value}, nil
	}
	if rest == "" {
		return outFlag{}, usagef("--out %s lacks the inputs after the =", value)
	}
	return outFlag{group: match[1], name: match[2], path: rest}, nil
}

func parseOutFlags(values []string) ([]outFlag, error) {
	var sets []outFlag
	seen := map[string]bool{}
	for _, v := range values {
		s, err := parseOutFlag(v)
		if err != nil {
			return nil, err
		}
		if s.path == "" {
			return nil, usagef("--out is empty; it names out-of-domain rows")
		}
		if s.name == "" && len(values) > 1 {
			return nil, usagef("--out %s needs a name among several: --out NAME=%[1]s", v)
		}
		if seen[s.name] {
			return nil, usagef("--out names two sets %q", s.name)
		}
		seen[s.name] = true
		sets = append(sets, s)
	}
	return sets, nil
}

// compareModel runs the model on all sets.
func compareModel(c *cli.Context, r *reading, choice comparing, comparison *compare.Options, model *featurize.Model) error {
	r.fitTo(model)
	if err := r.checkClasses(); err != nil {
		return err
	}
	info := model.Info()
	task := cmp.Or(c.String("task"), info.Task)
	if task == string(attach.Regression) {
		if err := refuseLabels(c); err != nil {
			return err
		}
	}
	read := func(path string, classes []int, labelled bool) (ood.Batch, error) {
		set, err := r.open(c.Context, path, "", classes)
		if err != nil {
			return ood.Batch{}, err
		}
		if labelled && task == string(attach.Classification) && set.Labels() != nil {
			if err := inputs.CheckLabels(set.Labels(), info.OutputsWidth); err != nil {
				return ood.Batch{}, fmt.Errorf("%s: %w", path, err)
			}
		}
		b, err := r.features(c.Context, model, path, set)
		if !labelled || task == string(attach.Regression) {
			b.Labels = nil
		}
		if task == string(attach.Regression) {
			// Methods on logits read scores of classes, which these are not.
			b.Logits = blas32.General{}
		}
		return b, err
	}
	var err error
	if comparison.Training.Batch, err = read(c.String("fit"), r.classes, true); err != nil {
		return err
	}
	if comparison.In, err = read(c.String("in"), r.classes, true); err != nil {
		return err
	}
	for _, s := range choice.sets {
		b, err := read(s.path, choice.outClasses, false)
		if err != nil {
			return err
		}
		addOut(comparison, s, b)
	}
	comparison.Training.Last, comparison.Training.Network = model.Last(), model.Network()
	comparison.Training.InputScale = r.options.InputScale()
	comparison.Training.Regression = task == string(attach.Regression)
	return nil
}

func addOut(comparison *compare.Options, s outFlag, b ood.Batch) {
	if s.name == "" {
		comparison.Out = b
		return
	}
	comparison.OutSets = append(comparison.OutSets, compare.OutSet{Name: s.name, Group: s.group, Batch: b})
}

func compareFeatures(c *cli.Context, choice comparing, comparison *compare.Options) error {
	regression := c.String("task") == string(attach.Regression)
	comparison.Training.Regression = regression
	var err error
	if comparison.Training.Last, err = loadWeights(c); err != nil {
		return err
	}
	layers := slices.ContainsFunc(choice.Methods, func(m ood.Method) bool { return m.Needs&ood.NeedLayers != 0 })
	read := func(path string) (ood.Batch, error) {
		var wants []inputs.Widths
		switch {
		case comparison.Training.Len() > 0:
			wants = append(wants, widthsOf(c.String("fit"), comparison.Training.Batch))
		case !layers:
			wants = append(wants, inputs.Widths{Skip: ood.NeedLayers})
		}
		b, err := openLayerFeatures(c, path, comparison.Training.Last, wants...)
		if err != nil {
			return b, err
		}
		noteFeatures(path, c.App.ErrWriter)
		if regression {
			b.Labels, b.Logits = nil, blas32.General{}
		}
		return b, nil
	}
	if comparison.Training.Batch, err = read(c.String("fit")); err != nil {
		return err
	}
	if comparison.In, err = read(c.String("in")); err != nil {
		return err
	}
	for _, s := range choice.sets {
		b, err := read(s.path)
		if err != nil {
			return err
		}
		b.Labels = nil
		addOut(comparison, s, b)
	}
	return nil
}
