package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/ood"
)

// methodTable describes methods in Markdown, one row each: its name, what its score
// is (the first sentence of Doc), where it comes from, what it needs and what
// a sweep varies.
func methodTable(methods []ood.Method) string {
	var b strings.Builder
	b.WriteString("| method | score | reference | needs | sweep |\n|---|---|---|---|---|\n")
	for _, m := range methods {
		needs := m.Needs.String()
		if needs == "" {
			needs = "–"
		}
		name := "`" + m.Name + "`"
		if m.Control {
			name += " (control)"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, escaped(firstSentence(m.Doc)), escaped(m.Ref), needs, escaped(sweepOf(m)))
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
func sweepOf(m ood.Method) string {
	values := map[string][]string{}
	for _, p := range m.Grid() {
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
