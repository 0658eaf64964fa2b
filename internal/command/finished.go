package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/audit/engine"
	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/report"
)

// finishedFlags holds the flags that need only the folder of a finished audit.
type finishedFlags struct {
	rates   audit.Identity // the error rates; other fields are not set
	out     string         // -o: a folder or, with --list, a file
	report  string
	list    string
	within  string
	top     int
	failIf  []string
	gates   []gate
	changed table // the flags of rates
}

// defaultTop is the number of inputs that --list review writes.
const defaultTop = 1000

// lists are the values of --list.
func lists() []string {
	return []string{"discoveries", "clean", "review", "label-errors", "all", "groups"}
}

// rateOptions returns the flags that do not affect scores. Those with an empty default have the
// value of the finished audits.
func (f *finishedFlags) rateOptions() table {
	f.changed = table{
		{name: "fdr", dest: &f.rates.FDR, rule: fraction, usage: "FRACTION: false discovery rate: on average, at most this fraction of discoveries is false"},
		{name: "delta", dest: &f.rates.Delta, rule: fraction, usage: "PROBABILITY: probability that any of the bounds is wrong"},
		{name: "conditional", dest: &f.rates.Conditional, usage: "guarantee --fdr for this calibration set with probability 1 − delta, not on average over calibration sets; makes fewer discoveries"},
		{name: "label-noise", dest: &f.rates.LabelNoise, rule: zeroOrFraction, usage: "FRACTION: with --label-errors, largest fraction of calibration rows, or of each class of them, whose own label may be wrong"},
		{name: "alpha", dest: &f.rates.Alpha, rule: fraction, usage: "FRACTION: false-alarm rate of the flags of single inputs (default: the one of fit)"},
	}.inGroup(groupGuarantee)
	if f.rates.FDR == 0 {
		for _, o := range f.changed {
			o.usage = strings.TrimSuffix(o.usage, " (default: the one of fit)") + " (default: as audited)"
		}
	}
	return f.changed
}

// failIfOption returns the flag of gates.
func (f *finishedFlags) failIfOption() *option {
	return &option{name: "fail-if", dest: &f.failIf, choices: auditFigures(), usage: "CONDITION: exit with status 3 if it holds, such as 'discoveries>0'; may be repeated; see `attach help gates`"}
}

// listOptions returns the flags of lists and of the report. They cannot be used while unfit.
func (f *finishedFlags) listOptions(unfit ...conflict) table {
	noList := noEffect("without --list", func() bool { return f.list == "" })
	return table{
		{name: "report", dest: &f.report, rule: hasExtension(".html"), file: resultFile, usage: "FILE: .html page of a finished audit, with these error rates"},
		{name: "list", dest: &f.list, choices: lists(), usage: "WHICH: write inputs of a finished audit, to standard output or -o FILE: discoveries, clean (all others), review (the highest scores first), label-errors, all; or groups, which counts inputs by folder, file, group and class"},
		{name: "only", dest: &f.within, usage: "NAME: list only what is in this folder, file, group or cluster of the report, or in 'class CLASS' (predicted) or 'label CLASS' (given)", conflicts: []conflict{noList}},
		{name: "top", dest: &f.top, rule: atLeast(1), usage: fmt.Sprintf("N: list only the N highest scores, or most suspicious labels of label-errors, the worst first (default for review: %d)", defaultTop), conflicts: []conflict{noList}},
	}.inGroup(groupOutput).withConflicts(unfit...)
}

// parseGates is a step of a command: it parses the gates.
func (f *finishedFlags) parseGates(*cli.Context) (err error) {
	f.gates, err = parseAuditGates(f.failIf)
	return err
}

// change replaces the error rates of an audit by those that were given.
func (f *finishedFlags) change(id *audit.Identity) {
	for _, o := range f.changed {
		switch {
		case !o.given:
		case o.name == "fdr":
			id.FDR = f.rates.FDR
		case o.name == "delta":
			id.Delta = f.rates.Delta
		case o.name == "conditional":
			id.Conditional = f.rates.Conditional
		case o.name == "label-noise":
			id.LabelNoise = f.rates.LabelNoise
		case o.name == "alpha":
			id.Alpha = f.rates.Alpha
		}
	}
}

// adviseRate adds a flag to an error about audits with different rates. With the flag, they have
// one rate.
func (f *finishedFlags) adviseRate(err error) error {
	difference := (*audit.MergeError)(nil)
	if !errors.As(err, &difference) {
		return err
	}
	o := f.changed.find(strings.ReplaceAll(difference.Key, "_", "-"))
	if o == nil {
		return err
	}
	advice := dashedName(o.name)
	if !o.isSwitch() {
		advice += " " + cmp.Or(difference.One, difference.Other)
	}
	return fmt.Errorf("%w; pass %s to answer with one rate", err, advice)
}

// answer answers from the finished audits in folders.
func (f *finishedFlags) answer(c *cli.Context, dirs []string) error {
	if err := cmp.Or(f.checkList(), f.checkOutputs(dirs)); err != nil {
		return err
	}
	finished, err := engine.OpenFinished(dirs, f.change, notePrinter(c.App.ErrWriter))
	if err != nil {
		return f.adviseRate(err)
	}
	if err := f.checkLabels(finished.Scores); err != nil {
		return err
	}
	var a *audit.Audit
	if f.list == "" && f.out != "" {
		a, err = finished.Write(c.Context, f.out)
	} else {
		a, err = finished.Results(c.Context)
	}
	if err != nil {
		return err
	}
	page := f.report
	if f.report != "" {
		err = writePage(c.Context, f.report, report.Audit(a))
	} else if f.list == "" && f.out != "" {
		page = filepath.Join(f.out, "report.html")
	}
	if err == nil && f.list != "" {
		err = f.writeList(c, finished, a)
	} else if err == nil {
		printAudit(c.App.Writer, a, page)
	}
	if err = cmp.Or(err, checkColumnGates(f.gates, a.Schema != nil), checkLabelGates(f.gates, a.LabelErrors != nil)); err != nil {
		return err
	}
	return checkAuditGates(f.gates, a)
}

// checkLabels returns an error if a flag needs label errors, and labels were not checked.
func (f *finishedFlags) checkLabels(scores *audit.ScoreSet) error {
	flag := ""
	switch {
	case len(scores.LabelRows) > 0:
		return nil
	case f.list == "label-errors":
		flag = "--list label-errors"
	case scores.LabelNoise > 0:
		flag = "--label-noise"
	default:
		return nil
	}
	return fmt.Errorf("%s: labels were not checked; audit the files again, with --label-errors", flag)
}

// checkList returns a usage error if -o is no file for a list.
func (f *finishedFlags) checkList() error {
	if f.list == "" {
		return nil
	}
	switch strings.ToLower(filepath.Ext(f.out)) {
	case ".csv", ".jsonl", ".parquet", ".txt":
	default:
		if f.out != "" && f.out != "-" {
			return usagef("-o is %q; with --list it must end in .csv, .jsonl, .parquet or .txt, which holds only names, or be - for CSV on standard output", f.out)
		}
	}
	return nil
}

// checkOutputs returns a usage error if a list or a page would overwrite a file of an audit,
// whose other files have other error rates.
func (f *finishedFlags) checkOutputs(dirs []string) error {
	outputs := map[string]string{"--report": f.report}
	if f.list != "" {
		outputs["-o"] = f.out
	}
	for flag, path := range outputs {
		for _, dir := range dirs {
			for _, name := range engine.ResultNames() {
				if path != "" && sameFile(filepath.Join(dir, name), path) {
					return usagef("%s %s would overwrite a file of the audit; write to another file", flag, path)
				}
			}
		}
	}
	return nil
}

// writeList writes the inputs or groups that --list names.
func (f *finishedFlags) writeList(c *cli.Context, finished *engine.Finished, a *audit.Audit) error {
	columns, zero, each := f.inputList(c.Context, finished, a)
	if f.list == "groups" {
		columns, zero, each = f.groupList(a)
	}
	n := 0
	write := func(t tableWriter) error {
		err := each(func(values []any) error {
			n++
			return t.write(fields(columns, values))
		})
		if err == nil && n == 0 {
			err = t.writeHeader(fields(columns, zero))
		}
		return cmp.Or(err, t.close())
	}
	var err error
	if f.out != "" && f.out != "-" {
		err = atomicfile.WriteFile(c.Context, f.out, func(w io.Writer) error { return write(newTableWriter(f.out, w)) })
	} else if t := newPreview(c.App.Writer); t != nil {
		err = write(t)
	} else {
		err = write(newTableWriter("", c.App.Writer))
	}
	if err != nil {
		return err
	}
	what := rows.CountOf(n, a.Inputs, "input")
	if f.list == "groups" {
		what = rows.Count(n, "group")
	}
	_, err = printf(c.App.ErrWriter, "%s listed\n", what)
	return err
}

// fields returns the fields of a row of a list.
func fields(columns []string, values []any) []field {
	row := make([]field, len(columns))
	for i, v := range values {
		if x, ok := v.(float64); ok {
			v = number{x: x}
		}
		row[i] = field{columns[i], v}
	}
	return row
}

// inputList returns the columns of a list of inputs with zero values, and a function that calls
// use for each.
func (f *finishedFlags) inputList(ctx context.Context, finished *engine.Finished, a *audit.Audit) (columns []string, zero []any, each func(use func([]any) error) error) {
	s := audit.Selection{Top: f.top, Within: f.within}
	switch f.list {
	case "discoveries", "clean":
		discovery := f.list == "discoveries"
		s.Discovery = &discovery
	case "label-errors":
		s.LabelErrors = true
	case "review":
		s.Top = cmp.Or(f.top, defaultTop)
	}
	columns, zero = finished.Scores.ListedColumns()
	return columns, zero, func(use func([]any) error) error {
		return finished.Scores.List(ctx, a, s, use)
	}
}

// groupList is inputList for groups.
func (f *finishedFlags) groupList(a *audit.Audit) (columns []string, zero []any, each func(use func([]any) error) error) {
	groups := a.GroupsWithSubfolders()
	if f.within != "" {
		groups = slices.DeleteFunc(groups, func(g audit.Group) bool { return !audit.Within(g.Name, f.within) && g.Kind+" "+g.Name != f.within })
	}
	if f.top > 0 {
		groups = groups[:min(f.top, len(groups))]
	}
	columns = []string{"name", "kind", "inputs", "discoveries", "outliers_lower_bound", "unusual", "fit_duplicates"}
	zero = []any{"", "", 0, 0, 0, 0, 0}
	for k := range a.LabelErrors {
		suffix := ""
		if len(a.LabelErrors) > 1 {
			suffix = fmt.Sprintf("_%d", k)
		}
		columns, zero = append(columns, "labelled"+suffix, "label_discoveries"+suffix, "label_errors_lower_bound"+suffix), append(zero, 0, 0, 0)
	}
	return columns, zero, func(use func([]any) error) error {
		if len(groups) == 0 {
			return fmt.Errorf("the audit has no file, folder, group, class or label %q", f.within)
		}
		for _, g := range groups {
			row := []any{g.Name, g.Kind, g.Inputs, g.Discoveries, g.Outliers, g.Unusual, g.FitDuplicates}
			for k := range g.Labelled {
				row = append(row, g.Labelled[k], g.LabelDiscoveries[k], g.LabelErrors[k])
			}
			if err := use(row); err != nil {
				return err
			}
		}
		return nil
	}
}
