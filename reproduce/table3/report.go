package table3

import (
	"fmt"
	"hash/fnv"
	"path/filepath"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// cell holds the results of one method on one set.
type cell struct {
	set    pairSet
	method string
	summary
	decisions []decision
	paper     float64
	published bool
}

func (s *settings) report(sets []pairSet, chosen []method, results *store) error {
	var cells []cell
	lines := [][]string{{"method", "set", "pair", "rows", "weight", "x_causes_y", "score", "right", "p"}}
	for _, m := range chosen {
		for _, set := range sets {
			c := cell{set: set, method: m.name}
			for _, p := range set.pairs {
				r := results.Records[s.keyOf(set, p, m)]
				d := decision{p, r.Score, r.P, r.Seconds}
				c.decisions = append(c.decisions, d)
				lines = append(lines, experiment.Cells(6, m.name, set.name, p.number, len(p.x), p.weight, p.forward, r.Score, d.correctFraction(), r.P))
			}
			c.summary = summarise(c.decisions, s.level)
			var row [6]float64
			row, c.published = paperTable3()[m.name]
			c.paper = row[slices.Index(setNames(), set.name)]
			cells = append(cells, c)
		}
	}
	if err := experiment.WriteCSV(filepath.Join(s.Out, "table3-pairs.csv"), lines); err != nil {
		return err
	}
	if err := experiment.WriteCSV(filepath.Join(s.Out, "table3.csv"), s.lines(cells)); err != nil {
		return err
	}
	table := s.markdown(sets, chosen, cells)
	fmt.Fprint(s.Stdout, "\n", table)
	if err := experiment.WriteText(filepath.Join(s.Out, "table3.md"), table); err != nil {
		return err
	}
	return plotTable(sets, chosen, cells, filepath.Join(s.Out, "table3"))
}

func (s *settings) lines(cells []cell) [][]string {
	lines := [][]string{{
		"method", "set", "accuracy", "stderr", "area", "paper", "pairs", "binary", "multivariate", "seconds",
		"level", "decided", "decided_pairs", "decided_accuracy",
	}}
	for _, c := range cells {
		paper, decided := any(""), []any{"", "", "", ""}
		if c.published {
			paper = c.paper
		}
		if c.tested() {
			decided = []any{s.level, c.decided, c.decidedPairs, experiment.Known(c.decidedAccuracy)}
		}
		lines = append(lines, experiment.Cells(6, append([]any{
			c.method, c.set.name, c.accuracy, c.stderr, c.area, paper, len(c.set.pairs), c.set.binary, c.set.multivariate, c.seconds,
		}, decided...)...))
	}
	return lines
}

// tested reports whether the decisions have p-values.
func (c cell) tested() bool { return c.decisions[0].p > 0 }

// markdown returns a table of accuracies next to the paper's, and a table of areas under the
// accuracy curve. If some decisions have p-values, a third table has the accuracies among
// the pairs decided.
func (s *settings) markdown(sets []pairSet, chosen []method, cells []cell) string {
	w := new(strings.Builder)
	cellsOf := func(m method) []cell {
		return slices.DeleteFunc(slices.Clone(cells), func(c cell) bool { return c.method != m.name })
	}
	header := func(first string) {
		fmt.Fprintf(w, "| %s |", first)
		for _, set := range sets {
			fmt.Fprintf(w, " %s |", set.name)
		}
		fmt.Fprintf(w, "\n|---|%s\n", strings.Repeat("---|", len(sets)))
	}
	fmt.Fprint(w, "Accuracy ± standard error, in brackets the paper's.\n\n")
	header("method")
	for _, m := range chosen {
		fmt.Fprintf(w, "| `%s` |", m.name)
		for _, c := range cellsOf(m) {
			fmt.Fprintf(w, " %s ± %s", experiment.Short(c.accuracy, 2), experiment.Short(c.stderr, 2))
			if c.published {
				fmt.Fprintf(w, " (%s)", experiment.Short(c.paper, 2))
			}
			fmt.Fprint(w, " |")
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "\nArea under accuracy by the fraction of pairs decided, the most confident first.\n\n")
	header("method")
	for _, m := range chosen {
		fmt.Fprintf(w, "| `%s` |", m.name)
		for _, c := range cellsOf(m) {
			fmt.Fprintf(w, " %s |", experiment.Short(c.area, 2))
		}
		fmt.Fprintln(w)
	}
	if slices.ContainsFunc(cells, cell.tested) {
		fmt.Fprintf(w, "\nPairs whose p-value is at most %g: fraction, and accuracy among them.\n\n", s.level)
		header("method")
		for _, m := range chosen {
			if m.score != nil {
				continue
			}
			fmt.Fprintf(w, "| `%s` |", m.name)
			for _, c := range cellsOf(m) {
				if c.decidedPairs == 0 {
					fmt.Fprint(w, " none |")
					continue
				}
				fmt.Fprintf(w, " %s, %s |", experiment.Short(c.decided, 2), experiment.Short(c.decidedAccuracy, 2))
			}
			fmt.Fprintln(w)
		}
	}
	for _, set := range sets {
		if set.binary+set.multivariate > 0 {
			fmt.Fprintf(w, "\n%s: %d pairs; %d with a variable of at most two values and %d of more than two variables are left out.\n",
				set.name, len(set.pairs), set.binary, set.multivariate)
		}
	}
	return w.String()
}

// pairSeed derives a seed from the names of the set and the pair.
func pairSeed(set, pair string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(set + "/" + pair))
	return h.Sum64()
}
