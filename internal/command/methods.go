package command

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

// methodsFlags holds the flags of attach methods.
type methodsFlags struct {
	table
	name                      string // the only method to print, or ""
	intervals, json, markdown bool
}

func methodsCommand() *cli.Command {
	l := &methodsFlags{}
	withName := noEffect("with NAME", func() bool { return l.name != "" })
	l.table = table{
		{name: "intervals", dest: &l.intervals, conflicts: []conflict{withName}, usage: "list interval models, which `attach fit --interval` takes, instead of detectors"},
		{name: "json", dest: &l.json, usage: "print JSON"},
		{name: "markdown", dest: &l.markdown, usage: "print the tables of docs/reference/methods.md",
			conflicts: []conflict{withName, noEffect("with --json", func() bool { return l.json }), noEffect("with --intervals", func() bool { return l.intervals })}},
	}.inGroup(groupOutput)
	return l.command(cli.Command{
		Name:  "methods",
		Usage: "list detectors and interval models, with references and parameters",
		Description: "A detector gives each input one score that grows with uncertainty. The default suits most models; docs/guides/which-method.md says when to choose another. " +
			"The grid of a method is what `attach compare --sweep` measures.",
		UsageText: "attach methods [--intervals] [--json]\nattach methods NAME [--json]\nattach methods --markdown",
		CustomHelpTemplate: `attach methods
# one method: what it computes, its parameters, and their defaults
attach methods knn
# interval models for regressors
attach methods --intervals`,
	}, argument{name: "NAME", dest: &l.name, optional: true, choices: methodNames(attach.Methods())}, l.run)
}

// How to set the parameters of detectors and of interval methods.
const (
	detectorAdvice = "Set a parameter with `attach fit --method NAME --param PARAMETER=VALUE`, for example --method bald --param dropout=0.2."
	intervalAdvice = "Set a parameter with `attach fit --interval NAME --interval-param PARAMETER=VALUE`."
)

func (l *methodsFlags) run(c *cli.Context) error {
	w := c.App.Writer
	switch {
	case l.name != "":
		return l.printOne(w)
	case l.markdown:
		_, err := io.WriteString(w, methodTables())
		return err
	case l.intervals && l.json:
		return writeJSON(w, methodEntries(intervalMethods()))
	case l.intervals:
		methods := methodEntries(intervalMethods())
		for i := range methods {
			methods[i].Grid = nil // not printed, because a grid can be long: that of gradient-boosting has 162 settings
		}
		return printMethods(w, methods, intervalAdvice)
	case l.json:
		return writeJSON(w, methodEntries(detectors()))
	}
	return printMethods(w, methodEntries(detectors()), detectorAdvice)
}

// printOne prints the method that the user named, or its JSON form.
func (l *methodsFlags) printOne(w io.Writer) error {
	m, ok := attach.MethodByName(l.name)
	if !ok {
		return usagef("method %q is not known; %s", l.name, suggest(l.name, methodNames(attach.Methods()), "`attach methods` lists the detectors, and `attach methods --intervals` the interval methods"))
	}
	entries := methodEntries([]ood.Method{m})
	switch {
	case l.json:
		return writeJSON(w, entries[0])
	case m.Needs.Targets:
		return printMethods(w, entries, intervalAdvice)
	}
	return printMethods(w, entries, detectorAdvice)
}

// detectors returns the methods that score rows.
func detectors() []ood.Method {
	return slices.DeleteFunc(attach.Methods(), func(m ood.Method) bool { return m.Needs.Targets })
}

// unknownMethod returns the error for a detector that does not exist.
func unknownMethod(flag, name string) error {
	return fmt.Errorf("%s %q is not known; %s", flag, name, suggest(name, methodNames(detectors()), "`attach methods` lists the detectors"))
}

// intervalMethods returns the methods that predict intervals.
func intervalMethods() []ood.Method {
	return slices.DeleteFunc(attach.Methods(), func(m ood.Method) bool { return !m.Needs.Targets })
}

func methodNames(methods []ood.Method) []string {
	var names []string
	for _, m := range methods {
		names = append(names, m.Name)
	}
	return names
}

// methodEntry describes a method as attach methods prints it.
type methodEntry struct {
	Name    string       `json:"name"`
	Doc     string       `json:"doc"`
	Ref     string       `json:"ref"`
	Needs   []string     `json:"needs"`
	Control bool         `json:"control"`
	Default ood.Params   `json:"default"`
	Grid    []ood.Params `json:"grid"`
}

func methodEntries(methods []ood.Method) []methodEntry {
	var all []methodEntry
	for _, m := range methods {
		e := methodEntry{m.Name, m.Doc, m.Ref, []string{}, m.Control, ood.Params{}, []ood.Params{}}
		needs := m.Needs
		needs.Targets, needs.Levels, needs.Ends = false, false, false // every fit of an interval model has these, so they are not listed
		if needs != (ood.Needs{}) {
			e.Needs = strings.Split(needs.String(), ", ")
		}
		maps.Copy(e.Default, fitting.Default(m))
		e.Grid = append(e.Grid, fitting.Grid(m)...)
		all = append(all, e)
	}
	return all
}

// printMethods prints methods and, at the end, how to set their parameters.
func printMethods(w io.Writer, methods []methodEntry, advice string) error {
	const indent = "           "
	var b strings.Builder
	for i, m := range methods {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(m.Name + "\n")
		writeWrapped(&b, m.Doc, "  ", "  ")
		writeWrapped(&b, cmp.Or(strings.Join(m.Needs, ", "), "nothing"), "  needs:   ", indent)
		if len(m.Default) > 0 {
			writeWrapped(&b, m.Default.String(), "  default: ", indent)
		}
		if len(m.Grid) > 0 {
			grid := make([]string, len(m.Grid))
			for j, p := range m.Grid {
				grid[j] = p.String()
			}
			writeWrapped(&b, strings.Join(grid, " | "), "  grid:    ", indent)
		}
		writeWrapped(&b, m.Ref, "  see:     ", indent)
	}
	b.WriteString("\n")
	writeWrapped(&b, advice, "", "")
	_, err := io.WriteString(w, b.String())
	return err
}

// methodTables describes all methods in tables of Markdown.
func methodTables() string {
	defaults := func(m methodEntry) string { return "`" + m.Default.String() + "`" }
	return methodTable("method | score", "sweep", methodEntries(detectors()), sweepOf) + "\n" +
		methodTable("interval method | quantiles", "default", methodEntries(intervalMethods()), defaults) + "\n" +
		parameterTable(methodEntries(attach.Methods()))
}

// methodTable describes methods in a table of Markdown, with one row each. The cells are
// the name, the first two sentences of Doc, the reference, the needs, and lastCell. The
// first sentence says what the method is, and the second when to use it.
func methodTable(first, last string, methods []methodEntry, lastCell func(methodEntry) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | when to use it | reference | needs | %s |\n|---|---|---|---|---|---|\n", first, last)
	for _, m := range methods {
		needs := cmp.Or(strings.Join(m.Needs, ", "), "–")
		name := "`" + m.Name + "`"
		if m.Control {
			name += " (control)"
		}
		summary, rest := cutSentence(m.Doc)
		usage, _ := cutSentence(rest)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", name, escapeCell(summary), escapeCell(usage), escapeCell(m.Ref), needs, escapeCell(lastCell(m)))
	}
	return b.String()
}

// cutSentence splits a text after its first sentence, which ends with a full stop and a
// space.
func cutSentence(doc string) (first, rest string) {
	if first, rest, found := strings.Cut(doc, ". "); found {
		return first + ".", rest
	}
	return doc, ""
}

func escapeCell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
}

// sweepOf lists the values of every parameter in the method's grid.
func sweepOf(m methodEntry) string {
	values := map[string][]string{}
	for _, p := range m.Grid {
		for name, v := range p {
			if s := strings.TrimPrefix(ood.Params{name: v}.String(), name+"="); !slices.Contains(values[name], s) {
				values[name] = append(values[name], s)
			}
		}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all = append(all, "`"+name+"` "+strings.Join(values[name], ", "))
	}
	if len(all) == 0 {
		return "–"
	}
	return strings.Join(all, "; ")
}

// parameterTable describes the parameters of methods in a table of Markdown. Methods
// without parameters are left out. The last cell is the rest of Doc, after the sentences
// that methodTable shows.
func parameterTable(methods []methodEntry) string {
	b := strings.Builder{}
	b.WriteString("| method | defaults | details |\n|---|---|---|\n")
	for _, m := range methods {
		if len(m.Default) == 0 {
			continue
		}
		_, rest := cutSentence(m.Doc)
		_, details := cutSentence(rest)
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", m.Name, m.Default, escapeCell(cmp.Or(details, "–")))
	}
	return b.String()
}
