package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/heads"
)

// tableRow is a method on a set, as trained or conformalized.
type tableRow struct {
	set, method string
	coverage    float64
	cqr         bool
	every       cell // the rule of the text; of raw intervals only
	narrow      cell // the rule of the scripts, or that of conformalized
	paper       published
	published   bool
	crossing    float64
	seconds     float64 // of all fits
	failed      int
}

func (p intervalPlan) report(s settings, keys []configKey, results *store[configKey, record]) error {
	var rows []tableRow
	for _, coverage := range p.coverages {
		for _, set := range p.sets {
			for _, m := range p.methods {
				rows = append(rows, rowsOf(set, m, coverage, p.tested[set.name], keys, results)...)
			}
		}
	}
	if err := writeFile(filepath.Join(s.intervals.out, "table1.csv"), func(w io.Writer) error { return writeTableCSV(w, rows) }); err != nil {
		return err
	}
	for _, coverage := range p.coverages {
		var of []tableRow
		for _, r := range rows {
			if r.coverage == coverage {
				of = append(of, r)
			}
		}
		printTable(s.stdout, of, s)
		printSummary(s.stdout, of, s.seeds)
		name := fmt.Sprintf("table1-%s", strings.TrimPrefix(strconv.FormatFloat(coverage, 'g', -1, 64), "0."))
		if err := plotTable(of, s.seeds, filepath.Join(s.intervals.out, name)); err != nil {
			return err
		}
		err := writeFile(filepath.Join(s.intervals.out, name+".md"), func(w io.Writer) error {
			_, err := io.WriteString(w, markdownTable(of, s.seeds))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func rowsOf(set uciSet, m heads.QuantileMethod, coverage float64, tested int, keys []configKey, results *store[configKey, record]) []tableRow {
	raw := tableRow{set: set.name, method: m.Name, coverage: coverage}
	var records []record
	for _, k := range keys {
		if k.Set != set.name || k.Method != m.Name || k.Coverage != coverage {
			continue
		}
		r := results.records[k]
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
		raw.paper, raw.published = paperCell(set.name, m.Name)
	}
	cqr := raw
	raw.every, raw.narrow = everyModel(records), narrowest(records)
	cqr.cqr, cqr.published, cqr.narrow = true, false, conformalized(records, tested)
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
	return figures(c.picp, c.picpStd, c.mpiw, c.mpiwStd)
}

func figures(picp, picpStd, mpiw, mpiwStd float64) string {
	return fmt.Sprintf("%s±%s (%s±%s)", short(picp, 3), short(picpStd, 3), short(mpiw, 3), short(mpiwStd, 3))
}

// short drops the zero before the point.
func short(v float64, digits int) string {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return "∞"
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	return strings.TrimPrefix(text, "0")
}

func (r tableRow) paperText() string {
	switch {
	case !r.published:
		return ""
	case r.paper == published{}:
		return "none"
	}
	return fmt.Sprintf("%s±%s (%s±%s)", short(r.paper.picp, 2), short(r.paper.picpStd, 2), short(r.paper.mpiw, 2), short(r.paper.mpiwStd, 2))
}

func printTable(w io.Writer, rows []tableRow, s settings) {
	epochs := "by the number of rows"
	if s.epochs > 0 {
		epochs = strconv.Itoa(s.epochs)
	}
	grid := s.intervals.grid + " grid"
	if s.intervals.report {
		grid = "settings so far"
	}
	fmt.Fprintf(w, "\n%g %% intervals: test coverage (width over the target's range), %d seeds, %s, epochs of networks: %s, kept: %s\n",
		100*rows[0].coverage, s.seeds, grid, epochs, s.intervals.keep)
	fmt.Fprintf(w, "in range: validation coverage within %g of the level. CQR: one half of the validation rows calibrates, the other chooses.\n", tolerance)
	columns := "%-9s %-28s %-21s %5s %-27s %5s %-27s %s\n"
	fmt.Fprintf(w, columns, "set", "method", "paper", "", "all in range (the text)", "seeds", "narrowest of each seed", "promised  z")
	set := ""
	for _, r := range rows {
		name := r.set
		if name == set {
			name = ""
		}
		set = r.set
		every, models, promise := r.every.String(), strconv.Itoa(r.every.models), ""
		if r.cqr {
			every, models = "", ""
			promise = short(r.narrow.expected, 4)
			if r.narrow.stderr > 0 {
				promise += fmt.Sprintf(" %+.1f", (r.narrow.picp-r.narrow.expected)/r.narrow.stderr)
			}
		}
		fmt.Fprintf(w, columns, name, r.label(), r.paperText(), models, every, strconv.Itoa(r.narrow.seeds), r.narrow.String(), promise)
	}
}

func writeTableCSV(w io.Writer, rows []tableRow) error {
	out := csv.NewWriter(w)
	out.Write([]string{
		"coverage", "set", "method", "cqr", "rule", "models", "seeds", "picp", "picp_std", "mpiw", "mpiw_std", "interval_score",
		"promised", "paper_picp", "paper_picp_std", "paper_mpiw", "paper_mpiw_std", "crossing", "fit_seconds", "failed",
	})
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	for _, r := range rows {
		paper := make([]string, 4)
		if r.published && r.paper != (published{}) {
			paper = []string{number(r.paper.picp), number(r.paper.picpStd), number(r.paper.mpiw), number(r.paper.mpiwStd)}
		}
		line := func(rule string, c cell) {
			promised := ""
			if r.cqr {
				promised = number(c.expected)
			}
			fields := []string{
				number(r.coverage), r.set, r.method, strconv.FormatBool(r.cqr), rule, strconv.Itoa(c.models), strconv.Itoa(c.seeds),
				number(c.picp), number(c.picpStd), number(c.mpiw), number(c.mpiwStd), number(c.score), promised,
			}
			out.Write(append(append(fields, paper...), number(r.crossing), number(r.seconds), strconv.Itoa(r.failed)))
		}
		if !r.cqr {
			line("text", r.every)
		}
		line("narrowest", r.narrow)
	}
	out.Flush()
	return out.Error()
}

func writeFile(path string, write func(w io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
