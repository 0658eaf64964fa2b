package table1

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/intervals"
)

// tableRow holds the results of one method on one set, either as trained or conformalized.
type tableRow struct {
	set, method string
	coverage    float64
	cqr         bool
	averaged    cell // selected by the rule of the paper's text; only for raw intervals
	selected    cell // raw intervals: selected by the rule of the paper's scripts; conformalized intervals: by the function conformalized
	paper       published
	published   bool
	crossing    float64
	seconds     float64 // total time of all fits
	failed      int     // number of failed fits
}

func (s *settings) report(keys []intervals.Case, results *store) error {
	var rows []tableRow
	for _, coverage := range s.Coverages {
		for _, set := range s.Plan.Sets {
			for _, m := range s.Methods {
				rows = append(rows, rowsOf(set.Name, m.Name, coverage, s.testRows[set.Name], keys, results)...)
			}
		}
	}
	if err := experiment.WriteCSV(filepath.Join(s.Out, "table1.csv"), tableLines(rows)); err != nil {
		return err
	}
	for _, coverage := range s.Coverages {
		var matching []tableRow
		for _, r := range rows {
			if r.coverage == coverage {
				matching = append(matching, r)
			}
		}
		s.printTable(matching)
		printSummary(s.Stdout, matching, s.Seeds)
		path := filepath.Join(s.Out, "table1-"+strings.TrimPrefix(strconv.FormatFloat(coverage, 'g', -1, 64), "0."))
		if err := plotTable(matching, s.Seeds, path); err != nil {
			return err
		}
		if err := experiment.WriteText(path+".md", markdownTable(matching, s.Seeds)); err != nil {
			return err
		}
	}
	return nil
}

func rowsOf(set, method string, coverage float64, testRows int, keys []intervals.Case, results *store) []tableRow {
	raw := tableRow{set: set, method: method, coverage: coverage}
	var records []record
	for _, k := range keys {
		if k.Set != set || k.Method != method || k.Coverage != coverage {
			continue
		}
		r := results.Records[k]
		if r.Failed != "" {
			raw.failed++
			continue
		}
		records = append(records, r)
		raw.seconds += r.Seconds
		raw.crossing += r.Crossing
	}
	if len(records) > 0 {
		raw.crossing /= float64(len(records))
	}
	if coverage == .95 {
		raw.paper, raw.published = paperCell(set, method)
	}
	cqr := raw
	raw.averaged, raw.selected = everyModel(records), narrowest(records)
	cqr.cqr, cqr.published, cqr.selected = true, false, conformalized(records, testRows)
	return []tableRow{raw, cqr}
}

func (r tableRow) label() string {
	if r.cqr {
		return r.method + " + CQR"
	}
	return r.method
}

func (c cell) String() string {
	if c.none() {
		return "none"
	}
	return formatCell(c.picp, c.picpStd, c.mpiw, c.mpiwStd)
}

func formatCell(picp, picpStd, mpiw, mpiwStd float64) string {
	return fmt.Sprintf("%s±%s (%s±%s)", experiment.Short(picp, 3), experiment.Short(picpStd, 3), experiment.Short(mpiw, 3), experiment.Short(mpiwStd, 3))
}

func (r tableRow) paperText() string {
	switch {
	case !r.published:
		return ""
	case r.paper == published{}:
		return "none"
	}
	return fmt.Sprintf("%s±%s (%s±%s)", experiment.Short(r.paper.picp, 2), experiment.Short(r.paper.picpStd, 2), experiment.Short(r.paper.mpiw, 2), experiment.Short(r.paper.mpiwStd, 2))
}

func (s *settings) printTable(rows []tableRow) {
	w := s.Stdout
	epochs := "by the number of rows"
	if s.Epochs > 0 {
		epochs = strconv.Itoa(s.Epochs)
	}
	grid := s.grid + " grid"
	if s.reportOnly {
		grid = "settings so far"
	}
	fmt.Fprintf(w, "\n%g %% intervals: test coverage (width over the target's range), %d seeds, %s, epochs of networks: %s, kept: %s\n",
		100*rows[0].coverage, s.Seeds, grid, epochs, s.keep)
	fmt.Fprintf(w, "in range: validation coverage within %g of the level. CQR: one half of the validation rows calibrates, the other chooses.\n", tolerance)
	columns := "%-9s %-28s %-21s %5s %-27s %5s %-27s %s\n"
	fmt.Fprintf(w, columns, "set", "method", "paper", "", "all in range (the text)", "seeds", "narrowest of each seed", "expected  z")
	set := ""
	for _, r := range rows {
		name := r.set
		if name == set {
			name = ""
		}
		set = r.set
		averaged, models, guarantee := r.averaged.String(), strconv.Itoa(r.averaged.models), ""
		if r.cqr {
			averaged, models = "", ""
			guarantee = experiment.Short(r.selected.expected, 4)
			if r.selected.stderr > 0 {
				guarantee += fmt.Sprintf(" %+.1f", (r.selected.picp-r.selected.expected)/r.selected.stderr)
			}
		}
		fmt.Fprintf(w, columns, name, r.label(), r.paperText(), models, averaged, strconv.Itoa(r.selected.seeds), r.selected.String(), guarantee)
	}
}

func tableLines(rows []tableRow) [][]string {
	lines := [][]string{{
		"coverage", "set", "method", "cqr", "rule", "models", "seeds", "picp", "picp_std", "mpiw", "mpiw_std", "interval_score",
		"guaranteed", "paper_picp", "paper_picp_std", "paper_mpiw", "paper_mpiw_std", "crossing", "fit_seconds", "failed",
	}}
	for _, r := range rows {
		paper := []any{"", "", "", ""}
		if r.published && r.paper != (published{}) {
			paper = []any{r.paper.picp, r.paper.picpStd, r.paper.mpiw, r.paper.mpiwStd}
		}
		line := func(rule string, c cell) {
			var guaranteed any = ""
			if r.cqr {
				guaranteed = c.expected
			}
			measured := []any{r.coverage, r.set, r.method, r.cqr, rule, c.models, c.seeds, c.picp, c.picpStd, c.mpiw, c.mpiwStd, c.score, guaranteed}
			lines = append(lines, experiment.Cells(6, slices.Concat(measured, paper, []any{r.crossing, r.seconds, r.failed})...))
		}
		if !r.cqr {
			line("text", r.averaged)
		}
		line("narrowest", r.selected)
	}
	return lines
}

// markdownTable returns a table of methods by sets. A cell has test coverage and width. If
// some seeds have no model, it also has the number of seeds that do.
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
		var paper, measured []string
		published := false
		for _, set := range sets {
			r := cells[set][label]
			published = published || r.published
			paper, measured = append(paper, r.paperText()), append(measured, r.selected.short(seeds))
		}
		if published {
			fmt.Fprintf(w, "| %s, the paper's | %s |\n", label, strings.Join(paper, " | "))
		}
		fmt.Fprintf(w, "| %s | %s |\n", label, strings.Join(measured, " | "))
	}
	return w.String()
}

// short formats coverage and width without standard deviations.
func (c cell) short(seeds int) string {
	if c.none() {
		return "none"
	}
	text := fmt.Sprintf("%s (%s)", experiment.Short(c.picp, 3), experiment.Short(c.mpiw, 3))
	if c.seeds < seeds {
		text += " of " + strconv.Itoa(c.seeds)
	}
	return text
}
