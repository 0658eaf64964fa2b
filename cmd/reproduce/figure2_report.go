package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
)

func printFigure2(w io.Writer, results []crossingResult, levels []float64) {
	fmt.Fprintf(w, "crossing quantiles on test rows, levels %v; pinball loss in standard deviations of the target\n", levels)
	fmt.Fprintf(w, "%-10s %-17s  %5s  %-15s  %-15s  %s\n", "set", "levels", "seeds", "rows that cross", "pairs that cross", "pinball")
	for _, set := range setsOf(results) {
		for _, method := range crossingMethods() {
			of := resultsOf(results, set, method)
			fmt.Fprintf(w, "%-10s %-17s  %5d  %-15s  %-16s  %s\n", set, method, len(of),
				across(of, func(r crossingResult) float64 { return r.rows }),
				across(of, func(r crossingResult) float64 { return r.pairs }),
				across(of, func(r crossingResult) float64 { return r.pinball }))
		}
	}
}

func setsOf(results []crossingResult) (sets []string) {
	for _, r := range results {
		if !slices.Contains(sets, r.set) {
			sets = append(sets, r.set)
		}
	}
	return sets
}

func resultsOf(results []crossingResult, set, method string) (of []crossingResult) {
	for _, r := range results {
		if r.set == set && r.method == method {
			of = append(of, r)
		}
	}
	return of
}

// saveFigure2 writes the results of every seed, the quantiles behind the
// curves, and the pictures.
func saveFigure2(path string, results []crossingResult, curves crossingCurves) error {
	if err := writeFile(path+".csv", func(w io.Writer) error { return writeCrossings(w, results) }); err != nil {
		return err
	}
	if err := writeFile(path+"-curves.csv", curves.writeCSV); err != nil {
		return err
	}
	if err := plotRates(results, path+"-rates"); err != nil {
		return err
	}
	return curves.plot(path)
}

func writeCrossings(w io.Writer, results []crossingResult) error {
	out := csv.NewWriter(w)
	out.Write([]string{"set", "seed", "levels", "rows_crossed", "pairs_crossed", "pinball"})
	for _, r := range results {
		out.Write([]string{r.set, strconv.Itoa(r.seed), r.method, decimal(r.rows), decimal(r.pairs), decimal(r.pinball)})
	}
	out.Flush()
	return out.Error()
}

// writeCSV writes the first input, the target and a column per method and
// level.
func (c crossingCurves) writeCSV(w io.Writer) error {
	header, columns := []string{"x1", "y"}, [][]float64{c.x, c.y}
	for m, method := range crossingMethods() {
		for l, tau := range c.levels {
			header, columns = append(header, method+" q"+decimal(tau)), append(columns, c.level(m, l))
		}
	}
	return writeColumns(w, header, columns)
}

// level are the quantiles of one method at one level.
func (c crossingCurves) level(method, l int) []float64 {
	out := make([]float64, len(c.x))
	for i := range out {
		out[i] = float64(c.quantiles[method][i*len(c.levels)+l])
	}
	return out
}
