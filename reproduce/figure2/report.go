package figure2

import (
	"fmt"
	"io"
	"slices"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

func printResults(w io.Writer, results []crossingResult, levels []float64) {
	fmt.Fprintf(w, "crossing quantiles on test rows, levels %v; pinball loss in standard deviations of the target\n", levels)
	fmt.Fprintf(w, "%-10s %-17s  %5s  %-15s  %-15s  %s\n", "set", "levels", "seeds", "rows that cross", "pairs that cross", "pinball")
	for _, set := range setNames(results) {
		for _, method := range crossingMethods() {
			matching := resultsFor(results, set, method)
			fmt.Fprintf(w, "%-10s %-17s  %5d  %-15s  %-16s  %s\n", set, method, len(matching),
				experiment.Across(matching, func(r crossingResult) float64 { return r.rowFraction }),
				experiment.Across(matching, func(r crossingResult) float64 { return r.pairFraction }),
				experiment.Across(matching, func(r crossingResult) float64 { return r.pinball }))
		}
	}
}

func setNames(results []crossingResult) (sets []string) {
	for _, r := range results {
		if !slices.Contains(sets, r.set) {
			sets = append(sets, r.set)
		}
	}
	return sets
}

func resultsFor(results []crossingResult, set, method string) (matching []crossingResult) {
	for _, r := range results {
		if r.set == set && r.method == method {
			matching = append(matching, r)
		}
	}
	return matching
}

// save writes the results of every seed, the quantiles behind the curves, and the figures.
func save(path string, results []crossingResult, curves crossingCurves) error {
	lines := [][]string{{"set", "seed", "levels", "rows_crossed", "pairs_crossed", "pinball"}}
	for _, r := range results {
		lines = append(lines, experiment.Cells(7, r.set, r.seed, r.method, r.rowFraction, r.pairFraction, r.pinball))
	}
	if err := experiment.WriteCSV(path+".csv", lines); err != nil {
		return err
	}
	header, columns := []string{"x1", "y"}, [][]float64{curves.x, curves.y}
	for m, method := range crossingMethods() {
		for l, tau := range curves.levels {
			header, columns = append(header, method+" q"+experiment.Digits(tau, 7)), append(columns, curves.quantileColumn(m, l))
		}
	}
	if err := experiment.WriteColumns(path+"-curves.csv", header, columns); err != nil {
		return err
	}
	if err := plotRates(results, path+"-rates"); err != nil {
		return err
	}
	return curves.plot(path)
}

// quantileColumn returns the quantiles of one method at level index l.
func (c crossingCurves) quantileColumn(method, l int) []float64 {
	out := make([]float64, len(c.x))
	for i := range out {
		out[i] = float64(c.quantiles[method][i*len(c.levels)+l])
	}
	return out
}
