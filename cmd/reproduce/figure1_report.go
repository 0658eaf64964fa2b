package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"
)

// across is the mean and the standard deviation over seeds.
func across[T any](results []T, value func(T) float64) string {
	values := make([]float64, len(results))
	for i, r := range results {
		values[i] = value(r)
	}
	if len(values) == 1 {
		return fmt.Sprintf("%.3g", values[0])
	}
	mean, std := stat.MeanStdDev(values, nil)
	return fmt.Sprintf("%.3g±%.2g", mean, std)
}

func printFigure1(w io.Writer, results []toyResult) {
	fmt.Fprintf(w, "%d seeds, each with %d rows to train on in [0, 0.5) and [1.5, 2), and fresh rows to measure on\n\n", len(results), figure1Rows)
	fmt.Fprintf(w, "aleatoric, %g %% intervals of rows inside the data\n", 100*(1-figure1Alpha))
	for _, kind := range []struct {
		name string
		of   func(r toyResult) covered
	}{
		{"as trained", func(r toyResult) covered { return r.raw }},
		{"conformalized on held-out rows", func(r toyResult) covered { return r.conformal }},
	} {
		fmt.Fprintf(w, "  %-31s cover %s, mean width %s\n", kind.name,
			across(results, func(r toyResult) float64 { return kind.of(r).coverage }),
			across(results, func(r toyResult) float64 { return kind.of(r).width }))
	}
	for l, tau := range figure1Levels() {
		fmt.Fprintf(w, "  quantile %-5g is off the true one by %s (root mean square)\n", tau,
			across(results, func(r toyResult) float64 { return r.off[l] }))
	}
	fmt.Fprintf(w, "\nepistemic: certificates of the last hidden layer, squared error; the threshold flags %g %% of held-out rows inside\n", 100*figure1Alpha)
	fmt.Fprintf(w, "%-17s  %-42s  %-25s  %s\n", "", "mean score", "AUROC against inside", "share flagged")
	line := func(cells ...any) {
		fmt.Fprintf(w, "%-17s  %-13s %-13s %-14s  %-12s %-12s  %-13s %-12s %s\n", cells...)
	}
	line("certificates", "inside", "gap", "beyond", "gap", "beyond", "inside", "gap", "beyond")
	for v, e := range results[0].epistemic {
		column := func(value func(e epistemic) float64) string {
			return across(results, func(r toyResult) float64 { return value(r.epistemic[v]) })
		}
		line(e.name,
			column(func(e epistemic) float64 { return e.inside }), column(func(e epistemic) float64 { return e.gap }),
			column(func(e epistemic) float64 { return e.beyond }),
			column(func(e epistemic) float64 { return e.gapAUROC }), column(func(e epistemic) float64 { return e.beyondAUROC }),
			column(func(e epistemic) float64 { return e.alarm }), column(func(e epistemic) float64 { return e.gapHit }),
			column(func(e epistemic) float64 { return e.farther }))
	}
}

// save writes the curves, the rows, the results of every seed and the picture.
func (c toyCurves) save(path string, results []toyResult) error {
	for name, write := range map[string]func(io.Writer) error{
		".csv":       c.writeCSV,
		"-rows.csv":  c.writeRows,
		"-seeds.csv": func(w io.Writer) error { return writeToySeeds(w, results) },
	} {
		if err := writeFile(path+name, write); err != nil {
			return err
		}
	}
	return c.plot(path)
}

// writeCSV writes x, a column per quantile and a column per kind of
// certificates.
func (c toyCurves) writeCSV(w io.Writer) error {
	header := []string{"x"}
	for _, tau := range figure1Levels() {
		header = append(header, "q"+decimal(tau))
	}
	for _, v := range c.variants {
		header = append(header, "score "+v)
	}
	return writeColumns(w, header, slices.Concat([][]float64{c.x}, c.quantiles, c.scores))
}

func (c toyCurves) writeRows(w io.Writer) error {
	return writeColumns(w, []string{"x", "y"}, [][]float64{c.data.x, c.data.y})
}

func writeToySeeds(w io.Writer, results []toyResult) error {
	out := csv.NewWriter(w)
	out.Write([]string{
		"seed", "coverage", "width", "coverage_cqr", "width_cqr", "certificates", "score_inside", "score_gap", "score_beyond", "auroc_gap", "auroc_beyond",
		"flagged_inside", "flagged_gap", "flagged_beyond",
	})
	for seed, r := range results {
		for _, e := range r.epistemic {
			row := []string{
				strconv.Itoa(seed), decimal(r.raw.coverage), decimal(r.raw.width), decimal(r.conformal.coverage), decimal(r.conformal.width), e.name,
			}
			for _, v := range []float64{e.inside, e.gap, e.beyond, e.gapAUROC, e.beyondAUROC, e.alarm, e.gapHit, e.farther} {
				row = append(row, decimal(v))
			}
			out.Write(row)
		}
	}
	out.Flush()
	return out.Error()
}

// writeColumns writes columns of equal length under their names.
func writeColumns(w io.Writer, header []string, columns [][]float64) error {
	out := csv.NewWriter(w)
	out.Write(header)
	row := make([]string, len(columns))
	for i := range columns[0] {
		for j, c := range columns {
			row[j] = decimal(c[i])
		}
		out.Write(row)
	}
	out.Flush()
	return out.Error()
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'g', 7, 64) }
