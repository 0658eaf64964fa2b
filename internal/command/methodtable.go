package command

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/ood"
)

// methodTables describe all methods in Markdown.
func methodTables() string {
	defaults := func(m entry) string { return "`" + m.Default.String() + "`" }
	return methodTable("method | score", "sweep", listed(detectors()), sweepOf) + "\n" +
		methodTable("interval method | quantiles", "default", listed(intervalMethods()), defaults)
}

// methodTable describes methods in Markdown, one row each: its name, what it
// gives (the first sentence of Doc), where it comes from, what it needs and, in
// the last column, what of says.
func methodTable(first, last string, methods []entry, of func(entry) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | reference | needs | %s |\n|---|---|---|---|---|\n", first, last)
	for _, m := range methods {
		needs := cmp.Or(strings.Join(m.Needs, ", "), "–")
		name := "`" + m.Name + "`"
		if m.Control {
			name += " (control)"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, escaped(firstSentence(m.Doc)), escaped(m.Ref), needs, escaped(of(m)))
	}
	return b.String()
}

// firstSentence ends at the first stop that white space follows.
func firstSentence(doc string) string {
	if first, _, more := strings.Cut(doc, ". "); more {
		return first + "."
	}
	return doc
}

func escaped(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
}

// sweepOf lists the values that the grid has of every parameter.
func sweepOf(m entry) string {
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
