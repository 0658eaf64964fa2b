package figure2

import (
	"fmt"
	"io"
	"slices"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

func show(w io.Writer, results []crossingResult, levels []float64) {
	fmt.Fprintf(w, "crossing quantiles on test rows, levels %v; pinball loss in standard deviations of the target\n", levels)
	fmt.Fprintf(w, "%-10s %-17s  %5s  %-15s  %-15s  %s\n", "set", "levels", "seeds", "rows that cross", "pairs that cross", "pinball")
	for _, set := range setsOf(results) {
		for _, method := range crossingMethods() {
			of := resultsOf(results, set, method)
			fmt.Fprintf(w, "%-10s %-17s  %5d  %-15s  %-16s  %s\n", set, method, len(of),
				experiment.Across(of, func(r crossingResult) float64 { return r.rows }),
				experiment.Across(of, func(r crossingResult) float64 { return r.pairs }),
				experiment.Across(of, func(r crossingResult) float64 { return r.pinball }))
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

// save writes the results of every seed, the quantiles behind the curves, and
// the pictures.
func save(path string, results []crossingResult, curves crossingCurves) error {
	lines := [][]string{{"set", "seed", "levels", "rows_crossed", "pairs_crossed", "pinball"}}
	for _, r := range results {
		lines = append(lines, experiment.Cells(7, r.set, r.seed, r.method, r.rows, r.pairs, r.pinball))
	}
	if err := experiment.WriteCSV(path+".csv", lines); err != nil {
		return err
	}
	header, columns := []string{"x1", "y"}, [][]float64{curves.x, curves.y}
	for m, method := range crossingMethods() {
		for l, tau := range curves.levels {
			header, columns = append(header, method+" q"+experiment.Digits(tau, 7)), append(columns, curves.level(m, l))
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

// level are the quantiles of one method at one level.
func (c crossingCurves) level(method, l int) []float64 {
	out := make([]float64, len(c.x))
	for i := range out {
		out[i] = float64(c.quantiles[method][i*len(c.levels)+l])
	}
	return out
}
