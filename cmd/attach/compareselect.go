package main

import (
	"context"
	"fmt"
	"io"

	"github.com/attach-uncertainty/attach/ood/compare"
)

// criteria are the values of --criterion.
func criteria() []string {
	names := make([]string, len(compare.Criteria()))
	for i, c := range compare.Criteria() {
		names[i] = string(c)
	}
	return names
}

// choose chooses a method without out-of-domain rows.
func (m *comparing) choose(ctx context.Context) (*compare.Selected, error) {
	run := newProgress(m.stderr, "corrupted inputs")
	defer run.end()
	p := newProgress(m.stderr, "select")
	defer p.end()
	return compare.Select(ctx, compare.Selection{
		Methods: m.job.Methods, Training: m.job.Training, Criterion: m.criterion,
		Sweep: m.job.Sweep, Parallel: m.job.Parallel, Progress: overall(p, len(m.job.Methods)), Corrupting: run.set,
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
