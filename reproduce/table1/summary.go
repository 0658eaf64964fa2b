package table1

import (
	"fmt"
	"io"
	"math"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// printSummary compares SQR with the paper's SQR and with the other methods, using only the
// table rows that meet the level. It then summarises each method over all sets.
func printSummary(w io.Writer, rows []tableRow, seeds int) {
	best := map[string]map[bool]tableRow{} // narrowest row by set and by whether it is SQR
	var sets []string
	for _, r := range rows {
		if !r.meetsLevel(seeds) {
			continue
		}
		if best[r.set] == nil {
			best[r.set] = map[bool]tableRow{}
			sets = append(sets, r.set)
		}
		b, found := best[r.set][r.isSQR()]
		if !found || r.selected.mpiw < b.selected.mpiw {
			best[r.set][r.isSQR()] = r
		}
	}
	fmt.Fprintf(w, "\nnarrowest of those with a model for every seed and a mean test coverage within %g of the level\n", tolerance)
	fmt.Fprintf(w, "%-9s %-22s %6s %6s %7s   %-28s %6s %s\n", "set", "SQR", "width", "paper", "ratio", "others", "width", "SQR/others")
	for _, set := range sets {
		bestSQR, found := best[set][true]
		bestOther, hasOther := best[set][false]
		line := fmt.Sprintf("%-9s", set)
		if found {
			line += fmt.Sprintf(" %-22s %6s", bestSQR.label(), experiment.Short(bestSQR.selected.mpiw, 3))
			if paper, ok := paperCell(set, "sqr"); ok && bestSQR.coverage == .95 {
				line += fmt.Sprintf(" %6s %7.2f", experiment.Short(paper.mpiw, 2), bestSQR.selected.mpiw/paper.mpiw)
			} else {
				line += fmt.Sprintf(" %6s %7s", "", "")
			}
		} else {
			line += fmt.Sprintf(" %-22s %6s %6s %7s", "none", "", "", "")
		}
		if hasOther {
			line += fmt.Sprintf("   %-28s %6s", bestOther.label(), experiment.Short(bestOther.selected.mpiw, 3))
			if found {
				line += fmt.Sprintf(" %.2f", bestSQR.selected.mpiw/bestOther.selected.mpiw)
			}
		}
		fmt.Fprintln(w, line)
	}
	printMethods(w, rows, seeds)
}

// meetsLevel reports whether a row has a model for every seed, bounded intervals and test
// coverage within tolerance of the level.
func (r tableRow) meetsLevel(seeds int) bool {
	return r.selected.seeds >= seeds && !math.IsInf(r.selected.mpiw, 1) && math.Abs(r.selected.picp-r.coverage) <= tolerance
}

func (r tableRow) isSQR() bool { return strings.HasPrefix(r.method, "sqr") }

// printMethods summarises each method over all sets, as trained and conformalized. Test
// results choose no method here, so the numbers are not optimistic.
func printMethods(w io.Writer, rows []tableRow, seeds int) {
	fmt.Fprintf(w, "\nover all sets: those with a model for every seed, covered within %g, no wider than the paper's SQR (to its two digits); geometric mean of width over the paper's SQR\n", tolerance)
	fmt.Fprintf(w, "%-28s %6s %6s %9s %9s\n", "method", "models", "holds", "no wider", "geo.mean")
	type tally struct {
		complete, met, noWider int
		ratios                 []float64
	}
	tallies := map[string]*tally{}
	var labels []string
	for _, r := range rows {
		t := tallies[r.label()]
		if t == nil {
			t = &tally{}
			tallies[r.label()] = t
			labels = append(labels, r.label())
		}
		if r.selected.seeds >= seeds {
			t.complete++
		}
		if r.meetsLevel(seeds) {
			t.met++
		}
		if paper, ok := paperCell(r.set, "sqr"); ok && r.coverage == .95 && !r.selected.none() {
			t.ratios = append(t.ratios, r.selected.mpiw/paper.mpiw)
			t.noWider += int(experiment.Indicator(r.meetsLevel(seeds) && r.selected.mpiw < paper.mpiw+.005))
		}
	}
	for _, label := range labels {
		t := tallies[label]
		noWider, ratio := "", ""
		if len(t.ratios) > 0 {
			noWider, ratio = fmt.Sprint(t.noWider), fmt.Sprintf("%.2f", stat.GeometricMean(t.ratios, nil))
		}
		fmt.Fprintf(w, "%-28s %6d %6d %9s %9s\n", label, t.complete, t.met, noWider, ratio)
	}
}
