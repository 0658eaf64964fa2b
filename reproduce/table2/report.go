package table2

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/report"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/networks"
)

func (s *settings) report(results *store) error {
	pairs := s.pairs(results)
	summaries := summariseMethods(s.Methods, pairs)
	text := new(strings.Builder)
	s.printHead(text)
	if s.grid == "paper" {
		return s.reportPaper(pairs, text)
	}
	for i := 0; i < len(pairs); {
		next := i
		for next < len(pairs) && pairs[next].network.Name == pairs[i].network.Name {
			next++
		}
		s.printNetwork(text, pairs[i:next])
		i = next
	}
	s.printSummary(text, summaries, pairs)
	s.printNotes(text, pairs)
	if _, err := io.WriteString(s.Stdout, text.String()); err != nil {
		return err
	}
	path := filepath.Join(s.Out, "table2")
	if err := experiment.WriteText(path+".txt", text.String()); err != nil {
		return err
	}
	if err := experiment.WriteCSV(path+".csv", s.pairLines(pairs)); err != nil {
		return err
	}
	if err := experiment.WriteCSV(path+"-summary.csv", summaryLines(summaries, len(pairs))); err != nil {
		return err
	}
	return plotPairs(pairs, summaries, path)
}

func (s *settings) printHead(w io.Writer) {
	rows := func(n int) string {
		if n == 0 {
			return "all"
		}
		return "at most " + strconv.Itoa(n)
	}
	grid := "default configurations"
	switch s.grid {
	case "full":
		grid = "mean ± standard deviation over each method's grid"
	case "paper":
		grid = "mean ± standard deviation over the paper's grid"
	}
	fmt.Fprintf(w, "AUROC, out-of-distribution (OOD) is the positive class: %s, seed %d; fit rows: %s, in-distribution rows: %s, OOD rows: %s of each set\n",
		grid, s.Seed, rows(s.Rows[0]), rows(s.Rows[1]), rows(s.Rows[2]))
	if slices.ContainsFunc(s.Methods, networks.RunsNetwork) && s.NetworkRows > 0 {
		fmt.Fprintf(w, "* runs the network: %s in-distribution and OOD rows of each set\n", rows(s.NetworkRows))
	}
	fmt.Fprintln(w, "† not ranked: controls (random, oracle), and ensembles of passes with dropout, which the paper does not count as single models")
	fmt.Fprintln(w, "Images of other sets are padded with black to the network's size, centred; colors are turned grey by luma, grey is repeated in three channels.")
	for _, line := range s.NotRun {
		fmt.Fprintln(w, line)
	}
}

func markedName(m ood.Method) string {
	name := m.Name
	if networks.RunsNetwork(m) {
		name += "*"
	}
	if !competes(m) {
		name += "†"
	}
	return name
}

func (c cell) text() string {
	switch {
	case c.empty() && c.failures > 0:
		return "failed"
	case c.empty():
		return "not run"
	case c.auroc.N == 1:
		return experiment.Short(c.auroc.Mean, 3)
	}
	return experiment.Short(c.auroc.Mean, 3) + "±" + experiment.Short(c.auroc.Std, 3)
}

// printNetwork prints one table: methods by OOD sets of a network.
func (s *settings) printNetwork(w io.Writer, pairs []pair) {
	n := pairs[0].network
	fmt.Fprintf(w, "\n%s, trained on %s", n.Name, n.Set)
	if n.FiveClass {
		fmt.Fprintf(w, ", classes %s", strings.Trim(fmt.Sprint(networks.FiveIn()), "[]"))
	}
	fmt.Fprintf(w, "; in-distribution accuracy %s\n", experiment.Short(1-pairs[0].error, 3))
	var columns []string
	for _, p := range pairs {
		columns = append(columns, p.out)
	}
	printRow(w, "", columns)
	meanAUROC := func(m ood.Method) float64 {
		var means []float64
		for _, p := range pairs {
			if c := p.cells[m.Name]; !c.empty() {
				means = append(means, c.auroc.Mean)
			}
		}
		return summarise(means).Mean
	}
	for _, m := range slices.SortedStableFunc(slices.Values(s.Methods), func(a, b ood.Method) int { return cmp.Compare(meanAUROC(b), meanAUROC(a)) }) {
		var cells []string
		for _, p := range pairs {
			cells = append(cells, p.cells[m.Name].text())
		}
		printRow(w, markedName(m), cells)
	}
}

func printRow(w io.Writer, name string, cells []string) {
	line := fmt.Sprintf("  %-28s", name)
	for _, c := range cells {
		line += fmt.Sprintf(" %-21s", c)
	}
	fmt.Fprintln(w, strings.TrimRight(line, " "))
}

// reportPaper writes the paper's table and our results side by side, for the networks of
// every set.
func (s *settings) reportPaper(pairs []pair, w *strings.Builder) error {
	header, rule := "| |", "|---|"
	for _, set := range paperSets() {
		header, rule = header+fmt.Sprintf(" %s: paper | ours |", set), rule+"---|---|"
	}
	fmt.Fprintf(w, "\nThe five other classes, in brackets configurations; ours of a network each\n\n%s\n%s\n", header, rule)
	lines := [][]string{{"row", "method", "network", "set", "configs", "auroc", "auroc_std", "paper_auroc", "paper_auroc_std", "n_fit", "n_in", "n_out", "fit_seconds", "failed"}}
	for _, r := range paperRows() {
		if !slices.ContainsFunc(s.Methods, func(m ood.Method) bool { return m.Name == r.method }) {
			continue
		}
		line, configs := "", 0
		for i, set := range paperSets() {
			paper, printed := "–", []any{"", ""}
			if r.published != nil {
				f := r.published[i]
				paper = experiment.Short(f.mean, 2) + " ± " + experiment.Short(f.std, 2)
				printed = []any{f.mean, f.std}
			}
			var measured []string
			for _, q := range pairs {
				if q.out != networks.OtherClasses || q.network.Set != set {
					continue
				}
				c := q.rows[r.name]
				measured, configs = append(measured, strings.Replace(c.text(), "±", " ± ", 1)), max(configs, c.auroc.N)
				values := []any{"", ""}
				if !c.empty() {
					values = []any{c.auroc.Mean, c.auroc.Std}
				}
				lines = append(lines, experiment.Cells(6, slices.Concat([]any{r.name, r.method, q.network.Name, set, c.auroc.N}, values, printed,
					[]any{c.fit, c.in, c.out, c.seconds, c.failed})...))
			}
			line += fmt.Sprintf(" %s | %s |", paper, cmp.Or(strings.Join(measured, ", "), "not run"))
		}
		fmt.Fprintf(w, "| %s (%d) |%s\n", r.name, configs, line)
	}
	s.printNotes(w, pairs)
	if _, err := io.WriteString(s.Stdout, w.String()); err != nil {
		return err
	}
	path := filepath.Join(s.Out, "table2-paper")
	if err := experiment.WriteText(path+".txt", w.String()); err != nil {
		return err
	}
	return experiment.WriteCSV(path+".csv", lines)
}

func (s *settings) printSummary(w io.Writer, summaries []methodSummary, pairs []pair) {
	fmt.Fprintf(w, "\nOver all %d pairs of a network and an OOD set\n", len(pairs))
	fmt.Fprintf(w, "  %4s %-28s %5s %6s %13s %10s %9s %5s %9s  %s\n",
		"rank", "method", "pairs", "mean", networks.OtherClasses, "other sets", "mean rank", "first", "worst gap", "on")
	marked := map[string]string{}
	for _, m := range s.Methods {
		marked[m.Name] = markedName(m)
	}
	for _, s := range summaries {
		if s.pairs == 0 {
			fmt.Fprintf(w, "  %4s %-28s %5d\n", "", marked[s.method], 0)
			continue
		}
		rank, meanRank, winCount := "", "", ""
		if s.rankByMean > 0 {
			rank = strconv.Itoa(s.rankByMean)
		}
		if s.competes {
			meanRank, winCount = strconv.FormatFloat(s.rank, 'f', 1, 64), strconv.Itoa(s.wins)
		}
		fmt.Fprintf(w, "  %4s %-28s %5d %6s %13s %10s %9s %5s %9s  %s\n",
			rank, marked[s.method], s.pairs, experiment.Short(s.mean, 4), meanOrBlank(s.otherClasses, 4, experiment.Short), meanOrBlank(s.otherSets, 4, experiment.Short), meanRank, winCount, experiment.Short(s.worst().size, 4), s.worst().pair)
	}
	fmt.Fprintln(w)
	ranked := 0
	for _, s := range summaries {
		ranked = max(ranked, s.rankByMean)
	}
	for _, s := range summaries {
		if strings.HasPrefix(s.method, "certificates") && s.rankByMean > 0 {
			fmt.Fprintf(w, "%s: rank %d of %d single-model methods by mean AUROC, mean rank %.1f\n", s.method, s.rankByMean, ranked, s.rank)
		}
	}
	for name := range strings.SplitSeq(s.attached, ",") {
		if line := verdict(name, summaries); line != "" {
			fmt.Fprintln(w, line)
		}
	}
}

// printNotes prints failures and fallbacks. Methods with the same reason share one line for
// each network.
func (s *settings) printNotes(w io.Writer, pairs []pair) {
	type note struct{ network, kind string }
	var order []note
	notes := map[note][]compare.Skipped{}
	add := func(network, kind string, s compare.Skipped) {
		n := note{network, kind}
		if notes[n] == nil {
			order = append(order, n)
		}
		if !slices.Contains(notes[n], s) {
			notes[n] = append(notes[n], s)
		}
	}
	for _, q := range pairs {
		for _, m := range s.Methods {
			c := q.cells[m.Name]
			if c.failures > 0 {
				failed := report.Together([]compare.Skipped{{Name: m.Name, Reason: c.failed}})[0]
				if c.failures > 1 {
					failed.Name += fmt.Sprintf(" (%d configurations)", c.failures)
				}
				add(q.network.Name, "failed", failed)
			}
			if c.variant != "" {
				add(q.network.Name, "stood in", compare.Skipped{Name: m.Name, Reason: c.variant})
			}
		}
	}
	for _, n := range order {
		for _, a := range report.Together(notes[n]) {
			fmt.Fprintf(w, "%s, %s (%s): %s\n", n.network, n.kind, a.Reason, a.Name)
		}
	}
}

func (s *settings) pairLines(pairs []pair) [][]string {
	lines := [][]string{{
		"network", "trained_on", "out", "method", "competes", "configs", "auroc", "auroc_std", "auroc_max", "fpr95_in", "fpr95_in_std",
		"n_fit", "n_in", "n_out", "fit_seconds", "score_us", "failed",
	}}
	for _, q := range pairs {
		for _, m := range s.Methods {
			c := q.cells[m.Name]
			values := []any{"", "", "", "", ""}
			if !c.empty() {
				values = []any{c.auroc.Mean, c.auroc.Std, c.auroc.Max, c.fpr95.Mean, c.fpr95.Std}
			}
			lines = append(lines, experiment.Cells(6, slices.Concat([]any{q.network.Name, q.network.Set, q.out, m.Name, competes(m), c.auroc.N}, values,
				[]any{c.fit, c.in, c.out, c.seconds, c.scoreMicros, c.failed})...))
		}
	}
	return lines
}

// meanOrBlank formats the mean, or returns "" if there are no results.
func meanOrBlank(s compare.Summary, n int, text func(v float64, n int) string) string {
	if s.N == 0 {
		return ""
	}
	return text(s.Mean, n)
}

func summaryLines(summaries []methodSummary, pairs int) [][]string {
	lines := [][]string{{
		"rank", "method", "competes", "pairs", "of_pairs", "auroc", "auroc_other_classes", "auroc_other_sets", "mean_rank", "first", "worst_gap", "worst_on", "worst_to",
	}}
	for _, s := range summaries {
		var worst gap
		if s.pairs > 0 {
			worst = s.worst()
		}
		lines = append(lines, experiment.Cells(6, s.rankByMean, s.method, s.competes, s.pairs, pairs, s.mean,
			meanOrBlank(s.otherClasses, 6, experiment.Digits), meanOrBlank(s.otherSets, 6, experiment.Digits), s.rank, s.wins, worst.size, worst.pair, worst.best))
	}
	return lines
}
