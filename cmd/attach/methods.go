package main

import (
	"cmp"
	"io"
	"maps"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/ood"
)

// listing is a call of attach methods.
type listing struct {
	table
	intervals, json, markdown bool
}

func methodsCommand() *cli.Command {
	l := &listing{}
	l.table = table{
		{name: "intervals", to: &l.intervals, usage: "list what `attach fit --interval` takes"},
		{name: "json", to: &l.json, usage: "print JSON"},
		{name: "markdown", to: &l.markdown, usage: "print the Markdown table of docs/methods.md",
			never: []never{idle("with --json", func() bool { return l.json }), idle("with --intervals", func() bool { return l.intervals })}},
	}
	return l.command(cli.Command{
		Name:  "methods",
		Usage: "list detectors, or --intervals, with their references and parameters",
		Description: "Every method gives one score per input that grows with uncertainty. The grid is what `attach compare --sweep` runs, the paper's where the " +
			"paper has one. --intervals lists what a regressor's quantile head can be instead.",
		UsageText: "attach methods [--json|--markdown]\nattach methods --intervals [--json]",
	}, argument{}, l.run)
}

func (l *listing) run(c *cli.Context) error {
	w := c.App.Writer
	switch {
	case l.markdown:
		_, err := io.WriteString(w, ood.Table(baselines.All))
		return err
	case l.intervals && l.json:
		return writeJSON(w, intervalMethods())
	case l.intervals:
		methods := intervalMethods()
		for i := range methods {
			methods[i].Grid = nil // of hundreds of settings
		}
		return printMethods(w, methods, "`attach fit --interval NAME --interval-param PARAMETER=VALUE` sets a parameter that a default names.")
	case l.json:
		return writeJSON(w, detectors())
	}
	return printMethods(w, detectors(), "`attach fit --method NAME --param PARAMETER=VALUE` sets a parameter that a default or a grid names: "+
		"--method bald --param dropout=0.2, for one, where --dropout is the quantile head's.")
}

// listed is what is printed of a detector or of a quantile method.
type listed struct {
	Name    string       `json:"name"`
	Doc     string       `json:"doc"`
	Ref     string       `json:"ref"`
	Needs   []string     `json:"needs"`
	Control bool         `json:"control"`
	Default ood.Params   `json:"default"`
	Grid    []ood.Params `json:"grid"`
}

func detectors() []listed {
	var all []listed
	for _, m := range baselines.All {
		l := listed{m.Name, m.Doc, m.Ref, needNames(m.Needs), m.Control, ood.Params{}, []ood.Params{}}
		maps.Copy(l.Default, m.Default())
		l.Grid = append(l.Grid, m.Grid()...)
		all = append(all, l)
	}
	return all
}

// intervalMethods are the quantile methods that can be attached.
func intervalMethods() []listed {
	var all []listed
	for _, m := range baselines.QuantileMethods {
		if m.Restore == nil {
			continue
		}
		needs := ood.NeedFeatures
		if m.NeedsTrainer {
			needs |= ood.NeedTrainer
		}
		l := listed{m.Name, m.Doc, m.Ref, needNames(needs), false, ood.Params{}, []ood.Params{}}
		maps.Copy(l.Default, m.Default)
		for _, p := range m.Grid {
			l.Grid = append(l.Grid, p)
		}
		all = append(all, l)
	}
	return all
}

// printMethods lists methods, and below them how their parameters are set.
func printMethods(w io.Writer, methods []listed, how string) error {
	const hang = "           "
	var b strings.Builder
	for i, m := range methods {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(m.Name + "\n")
		writeWrapped(&b, m.Doc, "  ", "  ")
		writeWrapped(&b, cmp.Or(strings.Join(m.Needs, ", "), "nothing"), "  needs:   ", hang)
		if len(m.Default) > 0 {
			writeWrapped(&b, m.Default.String(), "  default: ", hang)
		}
		if len(m.Grid) > 0 {
			grid := make([]string, len(m.Grid))
			for j, p := range m.Grid {
				grid[j] = p.String()
			}
			writeWrapped(&b, strings.Join(grid, " | "), "  grid:    ", hang)
		}
		writeWrapped(&b, m.Ref, "  see:     ", hang)
	}
	b.WriteString("\n")
	writeWrapped(&b, how, "", "")
	_, err := io.WriteString(w, b.String())
	return err
}

func needNames(n ood.Needs) []string {
	if n == 0 {
		return []string{}
	}
	return strings.Split(n.String(), ", ")
}
