// Package selection selects a detector for every trained network without
// out-of-distribution images. It reports how far the choice is from the best detector in
// hindsight. It reads the same files as table2, and stores features and results in the same
// way.
package selection

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot/vg/draw"

	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/networks"
)

// Experiment is the selection command.
var Experiment = experiment.Experiment{
	Name:    "selection",
	Doc:     "detectors chosen without out-of-domain data, by every criterion, and how far they are from the best",
	Shared:  []string{"data", "models", "sets", "methods", "out", "ort-lib"},
	Resumes: true,
	New: func(flags *flag.FlagSet, shared *experiment.Settings) func(ctx context.Context) error {
		p := &networks.Plan{Settings: shared}
		p.Define(flags, "1000,500,500")
		return func(ctx context.Context) error { return run(ctx, p) }
	},
}

// fixedChoices returns methods that need no selection: the command measures each of them on
// every network, for comparison with the choices of the rules.
func fixedChoices() []string {
	return []string{"fused-layers", "fused", "certificates-coupled", "knn", "vim", "energy"}
}

// key identifies the data and methods of a choice.
type key struct {
	Network string `json:"network"`
	SHA256  string `json:"sha256"`
	Methods string `json:"methods"`
	Rows    [3]int `json:"rows"`
	Seed    uint64 `json:"seed"`
}

func (k key) Key() key { return k }

// record holds the choices for one network.
type record struct {
	key
	Best    float64  `json:"best_auroc"` // the best method's AUROC, known only in hindsight
	Choices []choice `json:"choices"`
}

// choice is a method and the rule that selected it.
type choice struct {
	By     string  `json:"by"`
	Method string  `json:"method"`
	AUROC  float64 `json:"auroc"` // mean over the out-of-distribution sets
}

func run(ctx context.Context, p *networks.Plan) error {
	unusable := func(m ood.Method) bool { return m.Control || networks.RunsNetwork(m) }
	if err := p.Check(ctx, unusable, "none to choose from: controls and methods that run the network are not chosen"); err != nil {
		return err
	}
	results, err := experiment.OpenStore[key, record](filepath.Join(p.Out, "selection.jsonl"))
	if err != nil {
		return err
	}
	return errors.Join(selectAndReport(ctx, p, results), results.Close())
}

func selectAndReport(ctx context.Context, p *networks.Plan, results *experiment.Store[key, record]) error {
	var names []string
	for _, m := range p.Methods {
		names = append(names, m.Name)
	}
	var records []record
	for i, n := range p.Networks {
		k := key{Network: n.Name, SHA256: n.SHA256, Methods: strings.Join(names, ","), Rows: p.Rows, Seed: p.Seed}
		r, err := results.Of(k, func() (record, error) {
			r, err := choicesFor(ctx, p, n)
			if err == nil {
				r.key = k
				fmt.Fprintf(p.Stderr, "%s, %d of %d networks\n", n.Name, i+1, len(p.Networks))
			}
			return r, err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		records = append(records, r)
	}
	for _, line := range p.NotRun {
		fmt.Fprintln(p.Stdout, line)
	}
	rules := byRegret(records)
	printRegrets(p.Stdout, rules, len(records))
	lines := [][]string{{"network", "choice", "method", "auroc", "best_auroc", "regret"}}
	for _, r := range records {
		for _, c := range r.Choices {
			lines = append(lines, experiment.Cells(6, r.Network, c.By, c.Method, c.AUROC, r.Best, r.Best-c.AUROC))
		}
	}
	if err := experiment.WriteCSV(filepath.Join(p.Out, "selection.csv"), lines); err != nil {
		return err
	}
	return plotRegrets(rules, filepath.Join(p.Out, "selection"))
}

// choicesFor returns the choices of every rule for one network, followed by the fixed
// choices.
func choicesFor(ctx context.Context, p *networks.Plan, n networks.Measured) (r record, err error) {
	im, err := p.Load(ctx, n, func(float64) {})
	if err != nil {
		return r, err
	}
	defer im.Model.Close()
	report, err := compare.Run(ctx, compare.Options{Methods: p.Methods, Training: im.Training, Test: im.In, OODSets: im.Outs})
	if err != nil {
		return r, err
	}
	aurocs := map[string]float64{}
	for _, m := range report.Methods {
		if len(m.Configs) > 0 {
			aurocs[m.Name] = m.Configs[0].AUROC
			r.Best = max(r.Best, m.Configs[0].AUROC)
		}
	}
	add := func(rule, method string) error {
		auroc, ok := aurocs[method]
		if !ok {
			return fmt.Errorf("%s, chosen by %s, has no result", method, rule)
		}
		r.Choices = append(r.Choices, choice{rule, method, auroc})
		return nil
	}
	pseudo, err := pseudoAUROCs(ctx, p.Methods, im.Training)
	if err != nil {
		return r, err
	}
	for _, rule := range rules() {
		ranked, err := rule.rank(p.Methods, pseudo)
		if err == nil {
			err = add(rule.name, ranked[0].method)
		}
		if err != nil {
			return r, fmt.Errorf("%s: %w", rule.name, err)
		}
	}
	for _, name := range fixedChoices() {
		if !slices.ContainsFunc(p.Methods, func(m ood.Method) bool { return m.Name == name }) {
			continue
		}
		if err := add("always "+name, name); err != nil {
			return r, err
		}
	}
	return r, nil
}

// regretSummary holds the AUROC that a rule loses on each network, compared with the best
// method in hindsight.
type regretSummary struct {
	rule    string
	regrets []float64
}

func (l regretSummary) mean() float64 { return stat.Mean(l.regrets, nil) }

// byRegret returns the regrets of every rule, in ascending order of the mean.
func byRegret(records []record) []regretSummary {
	var list []regretSummary
	for _, r := range records {
		for _, c := range r.Choices {
			i := slices.IndexFunc(list, func(l regretSummary) bool { return l.rule == c.By })
			if i < 0 {
				i, list = len(list), append(list, regretSummary{rule: c.By})
			}
			list[i].regrets = append(list[i].regrets, r.Best-c.AUROC)
		}
	}
	slices.SortStableFunc(list, func(a, b regretSummary) int { return cmp.Compare(a.mean(), b.mean()) })
	return list
}

func printRegrets(w io.Writer, list []regretSummary, networks int) {
	fmt.Fprintf(w, "AUROC lost against the best in hindsight, %d networks\n\n%-28s %6s %8s\n", networks, "choice", "mean", "largest")
	for _, l := range list {
		fmt.Fprintf(w, "%-28s %6s %8s\n", l.rule, experiment.Short(l.mean(), 3), experiment.Short(slices.Max(l.regrets), 3))
	}
}

// plotRegrets plots the regrets of every rule, with one dot for each network.
func plotRegrets(list []regretSummary, path string) error {
	p := experiment.NewFigure("AUROC lost against the best in hindsight", "AUROC lost", "")
	var names []string
	var x, y, means, rows []float64
	for i, l := range slices.Backward(list) {
		row := float64(len(list) - 1 - i)
		names, means, rows = append(names, l.rule), append(means, l.mean()), append(rows, row)
		for _, v := range l.regrets {
			x, y = append(x, v), append(y, row)
		}
	}
	dots := p.Dots(x, y, experiment.Dot(experiment.Color(0), 1.8, draw.CircleGlyph{}))
	mean := p.Dots(means, rows, experiment.Dot(experiment.Color(1), 4, draw.RingGlyph{}))
	p.Add(dots, mean)
	p.Legend.Add("a network", dots)
	p.Legend.Add("their mean", mean)
	p.NominalY(names...)
	p.X.Min, p.Y.Min, p.Y.Max = 0, -.5, float64(len(list))+1 // 1 leaves room for the legend
	return experiment.Save(path, 16, 10, []*experiment.Figure{p})
}
