package abalone

import (
	"fmt"
	"path/filepath"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// paperFigures returns accuracy and AUC from the paper's appendix B, as means and standard
// deviations over 30 repetitions.
func paperFigures() map[string][2]string {
	return map[string][2]string{
		"cross-entropy": {"0.79 ± 0.02", "0.87 ± 0.02"},
		"pinball":       {"0.78 ± 0.02", "0.84 ± 0.03"},
	}
}

func (s *settings) report(data abaloneData, split experiment.Split, epochs int, results []formResult) error {
	if err := experiment.WriteCSV(filepath.Join(s.Out, "abalone.csv"), csvLines(results)); err != nil {
		return err
	}
	var old float64
	for _, isOld := range data.old {
		old += experiment.Indicator(isOld)
	}
	w := s.Stdout
	fmt.Fprintf(w, "%d abalone (%d with a missing value left out), %.1f %% old (more than %d rings); %d splits into %d and %d rows, %d epochs\n",
		data.x.Rows, data.dropped, 100*old/float64(data.x.Rows), youngRings, len(results[0].splits), len(split.Fit), len(split.Test), epochs)
	meanStd := func(values []float64) string {
		mean, std := stat.MeanStdDev(values, nil)
		return fmt.Sprintf("%.3f ± %.3f", mean, std)
	}
	fmt.Fprintf(w, "\n%-20s %-15s %-15s  %-15s %-15s  %-12s %s\n", "score: the median", "accuracy", "AUC", "by mean: acc.", "AUC", "paper: acc.", "AUC")
	for _, r := range results {
		paper := paperFigures()[r.form.name]
		fmt.Fprintf(w, "%-20s %-15s %-15s  %-15s %-15s  %-12s %s\n", r.form.name, meanStd(r.values(accuracy)), meanStd(r.values(auc)),
			meanStd(r.values(meanAccuracy)), meanStd(r.values(meanAUC)), paper[0], paper[1])
	}
	fmt.Fprintf(w, "\n%-20s %s\n", "", "minus cross-entropy on the same split: mean ± std (corrected standard error; p of the t test)")
	for _, r := range results[1:] {
		fmt.Fprintf(w, "%-20s", r.form.name)
		for _, m := range []struct {
			name  string
			value func(classMeasures) float64
		}{{"accuracy", accuracy}, {"AUC", auc}, {"AUC by mean", meanAUC}} {
			d := pairedDifference(r.values(m.value), results[0].values(m.value), len(split.Fit), len(split.Test))
			fmt.Fprintf(w, "  %s %+.3f ± %.3f (%.3f; %.2g)", m.name, d.mean, d.std, d.stderr, d.p)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "\n%g %% intervals of the score (in rings for the last; for cross-entropy the probability of the other class)\n", 100*s.coverage)
	fmt.Fprintf(w, "%-20s %-15s %-15s %-15s  %-15s %-15s %s\n", "", "width if right", "if wrong", "AUC for errors", "holds the class", "holds both", "errors where one")
	for _, r := range results {
		column := func(value func(classMeasures) float64) string { return meanStd(r.values(value)) }
		fmt.Fprintf(w, "%-20s %-15s %-15s %-15s  %-15s %-15s %s\n", r.form.name,
			column(func(m classMeasures) float64 { return m.uncertaintyRight }), column(func(m classMeasures) float64 { return m.uncertaintyWrong }),
			column(func(m classMeasures) float64 { return m.errorAUC }), column(func(m classMeasures) float64 { return m.covered }),
			column(func(m classMeasures) float64 { return m.undecided }), column(func(m classMeasures) float64 { return m.decidedWrong }))
	}
	return plotResults(results, s.coverage, filepath.Join(s.Out, "abalone"))
}

func accuracy(m classMeasures) float64     { return m.accuracy }
func auc(m classMeasures) float64          { return m.auc }
func meanAccuracy(m classMeasures) float64 { return m.meanAccuracy }
func meanAUC(m classMeasures) float64      { return m.meanAUC }

// csvLines returns the header and one line for each form and split.
func csvLines(results []formResult) [][]string {
	head := []string{
		"form", "split", "accuracy", "auc", "mean_accuracy", "mean_auc", "width_right", "width_wrong", "error_auc",
		"covered", "undecided", "decided_wrong",
	}
	for t := range results[0].splits[0].decileErrors {
		head = append(head, fmt.Sprintf("error_tenth_%d", t+1))
	}
	lines := [][]string{head}
	for _, r := range results {
		for i, m := range r.splits {
			line := []any{r.form.name, i, m.accuracy, m.auc, m.meanAccuracy, m.meanAUC, m.uncertaintyRight, m.uncertaintyWrong, m.errorAUC, m.covered, m.undecided, m.decidedWrong}
			for _, v := range m.decileErrors {
				line = append(line, v)
			}
			lines = append(lines, experiment.Cells(6, line...))
		}
	}
	return lines
}
