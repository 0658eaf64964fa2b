package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// markdownTable is methods by sets. Every cell is test coverage and width, and
// the number of seeds with a model where some have none.
func markdownTable(rows []tableRow, seeds int) string {
	w := new(strings.Builder)
	var sets, labels []string
	cells := map[string]map[string]tableRow{}
	for _, r := range rows {
		if cells[r.set] == nil {
			sets = append(sets, r.set)
			cells[r.set] = map[string]tableRow{}
		}
		if !slices.Contains(labels, r.label()) {
			labels = append(labels, r.label())
		}
		cells[r.set][r.label()] = r
	}
	fmt.Fprintf(w, "%g %% intervals: test coverage (width over the target's range), means of %d seeds.\n\n", 100*rows[0].coverage, seeds)
	fmt.Fprintf(w, "| method | %s |\n|---|%s\n", strings.Join(sets, " | "), strings.Repeat("---|", len(sets)))
	for _, label := range labels {
		var paper, ours []string
		published := false
		for _, set := range sets {
			r := cells[set][label]
			published = published || r.published
			paper, ours = append(paper, r.paperText()), append(ours, r.narrow.short(seeds))
		}
		if published {
			fmt.Fprintf(w, "| %s, the paper's | %s |\n", label, strings.Join(paper, " | "))
		}
		fmt.Fprintf(w, "| %s | %s |\n", label, strings.Join(ours, " | "))
	}
	return w.String()
}

// short is coverage and width without deviations.
func (c cell) short(seeds int) string {
	if c.none() {
		return "none"
	}
	text := fmt.Sprintf("%s (%s)", short(c.picp, 3), short(c.mpiw, 3))
	if c.seeds < seeds {
		text += " of " + strconv.Itoa(c.seeds)
	}
	return text
}
