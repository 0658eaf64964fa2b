package figure1

import (
	"fmt"
	"io"
	"slices"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

func printResults(w io.Writer, results []toyResult) {
	fmt.Fprintf(w, "%d seeds, each with %d rows to train on in [0, 0.5) and [1.5, 2), and fresh rows to measure on\n\n", len(results), trainRows)
	fmt.Fprintf(w, "aleatoric, %g %% intervals of rows inside the data\n", 100*(1-alpha))
	for _, kind := range []struct {
		name      string
		summaryOf func(r toyResult) intervalSummary
	}{
		{"as trained", func(r toyResult) intervalSummary { return r.raw }},
		{"conformalized on held-out rows", func(r toyResult) intervalSummary { return r.conformal }},
	} {
		fmt.Fprintf(w, "  %-31s cover %s, mean width %s\n", kind.name,
			experiment.Across(results, func(r toyResult) float64 { return kind.summaryOf(r).coverage }),
			experiment.Across(results, func(r toyResult) float64 { return kind.summaryOf(r).width }))
	}
	for l, tau := range levels() {
		fmt.Fprintf(w, "  quantile %-5g is off the true one by %s (root mean square)\n", tau,
			experiment.Across(results, func(r toyResult) float64 { return r.quantileErrors[l] }))
	}
	fmt.Fprintf(w, "\nepistemic: certificates of the last hidden layer, squared error; the threshold flags %g %% of held-out rows inside\n", 100*alpha)
	fmt.Fprintf(w, "%-17s  %-42s  %-25s  %s\n", "", "mean score", "AUROC against inside", "share flagged")
	line := func(cells ...any) {
		fmt.Fprintf(w, "%-17s  %-13s %-13s %-14s  %-12s %-12s  %-13s %-12s %s\n", cells...)
	}
	line("certificates", "inside", "gap", "beyond", "gap", "beyond", "inside", "gap", "beyond")
	for v, e := range results[0].epistemic {
		column := func(value func(e epistemic) float64) string {
			return experiment.Across(results, func(r toyResult) float64 { return value(r.epistemic[v]) })
		}
		line(e.name,
			column(func(e epistemic) float64 { return e.inside }), column(func(e epistemic) float64 { return e.gap }),
			column(func(e epistemic) float64 { return e.beyond }),
			column(func(e epistemic) float64 { return e.gapAUROC }), column(func(e epistemic) float64 { return e.beyondAUROC }),
			column(func(e epistemic) float64 { return e.flaggedInside }), column(func(e epistemic) float64 { return e.flaggedGap }),
			column(func(e epistemic) float64 { return e.flaggedBeyond }))
	}
}

// save writes the curves, the data, the results of every seed and the figure.
func (c toyCurves) save(path string, results []toyResult) error {
	header := []string{"x"}
	for _, tau := range levels() {
		header = append(header, "q"+experiment.Digits(tau, 7))
	}
	for _, v := range c.variants {
		header = append(header, "score "+v)
	}
	if err := experiment.WriteColumns(path+".csv", header, slices.Concat([][]float64{c.x}, c.quantiles, c.scores)); err != nil {
		return err
	}
	if err := experiment.WriteColumns(path+"-rows.csv", []string{"x", "y"}, [][]float64{c.data.x, c.data.y}); err != nil {
		return err
	}
	if err := experiment.WriteCSV(path+"-seeds.csv", seedLines(results)); err != nil {
		return err
	}
	return c.plot(path)
}

func seedLines(results []toyResult) [][]string {
	lines := [][]string{{
		"seed", "coverage", "width", "coverage_cqr", "width_cqr", "certificates", "score_inside", "score_gap", "score_beyond", "auroc_gap", "auroc_beyond",
		"flagged_inside", "flagged_gap", "flagged_beyond",
	}}
	for seed, r := range results {
		for _, e := range r.epistemic {
			lines = append(lines, experiment.Cells(7, seed, r.raw.coverage, r.raw.width, r.conformal.coverage, r.conformal.width, e.name,
				e.inside, e.gap, e.beyond, e.gapAUROC, e.beyondAUROC, e.flaggedInside, e.flaggedGap, e.flaggedBeyond))
		}
	}
	return lines
}
