package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/ood/compare"
	"github.com/urfave/cli/v2"
)

// criteria are the values of --criterion, as help shows them.
func criteria() string {
	names := make([]string, len(compare.Criteria()))
	for i, c := range compare.Criteria() {
		names[i] = string(c)
	}
	return strings.Join(names, ", ")
}

func checkCriterion(c *cli.Context) error {
	name := c.String("criterion")
	if name == "" {
		return nil
	}
	if !c.Bool("select") {
		return usagef("--criterion is for --select")
	}
	if !slices.Contains(compare.Criteria(), compare.Criterion(name)) {
		return usagef("--criterion is %q; it must be one of %s", name, criteria())
	}
	return nil
}

// selectMethod chooses without out-of-domain rows.
func (choice comparing) selectMethod(c *cli.Context, comparison compare.Options) (*compare.Selected, error) {
	run := newProgress(c.App.ErrWriter, "corrupted inputs")
	defer run.end()
	p := newProgress(c.App.ErrWriter, "select")
	defer p.end()
	return compare.Select(c.Context, compare.Selection{
		Methods: comparison.Methods, Training: comparison.Training, Criterion: compare.Criterion(c.String("criterion")),
		Sweep: comparison.Sweep, Parallel: comparison.Parallel, Progress: overall(p, len(comparison.Methods)), Corrupting: run.set,
	})
}

// printSelected prints what was chosen without out-of-domain rows.
func printSelected(w io.Writer, r *compare.Report) {
	s := r.Selected
	if s == nil {
		return
	}
	name := s.Method
	if len(s.Params) > 0 {
		name += " " + s.Params.String()
	}
	printf(w, "\nselected from --fit alone, by %s: %s", s.Criterion, name)
	if r.Regret == nil {
		fmt.Fprint(w, "; it has no result on --out\n")
		return
	}
	printf(w, "; AUROC %.4f, regret %.4f\n", *s.AUROC, *r.Regret)
}
