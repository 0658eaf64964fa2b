// Package selection chooses a detector for every trained network without
// out-of-domain images, and says how far it is from the best in hindsight. It
// reads what table2 reads, and keeps features and results as table2 does.
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

// Experiment is what the command runs.
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

// fixedChoices are methods that one may take without choosing.
func fixedChoices() []string {
	return []string{"fused-layers", "fused", "certificates-coupled", "knn", "vim", "energy"}
}

// key is what choices were made from.
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
	Best    float64  `json:"best_auroc"` // in hindsight
	Choices []choice `json:"choices"`
}

// choice is a method and how it was chosen.
type choice struct {
	By     string  `json:"by"`
	Method string  `json:"method"`
	AUROC  float64 `json:"auroc"` // the mean over the out-of-domain sets
}

func run(ctx context.Context, p *networks.Plan) error {
	drop := func(m ood.Method) bool { return m.Control || networks.RunsNetwork(m) }
	if err := p.Check(ctx, drop, "none to choose from: controls and methods that run the network are not chosen"); err != nil {
		return err
	}
	results, err := experiment.OpenStore[key, record](filepath.Join(p.Out, "selection.jsonl"))
	if err != nil {
		return err
	}
	return errors.Join(choose(ctx, p, results), results.Close())
}

func choose(ctx context.Context, p *networks.Plan, results *experiment.Store[key, record]) error {
	var names []string
	for _, m := range p.Methods {
		names = append(names, m.Name)
	}
	var all []record
	for i, n := range p.Networks {
		k := key{Network: n.Name, SHA256: n.SHA256, Methods: strings.Join(names, ","), Rows: p.Rows, Seed: p.Seed}
		r, err := results.Of(k, func() (record, error) {
			r, err := choices(ctx, p, n)
			if err == nil {
				r.key = k
				fmt.Fprintf(p.Stderr, "%s, %d of %d networks\n", n.Name, i+1, len(p.Networks))
			}
			return r, err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		all = append(all, r)
	}
	for _, line := range p.NotRun {
		fmt.Fprintln(p.Stdout, line)
	}
	rules := byRegret(all)
	show(p.Stdout, rules, len(all))
	lines := [][]string{{"network", "choice", "method", "auroc", "best_auroc", "regret"}}
	for _, r := range all {
		for _, c := range r.Choices {
			lines = append(lines, experiment.Cells(6, r.Network, c.By, c.Method, c.AUROC, r.Best, r.Best-c.AUROC))
		}
	}
	if err := experiment.WriteCSV(filepath.Join(p.Out, "selection.csv"), lines); err != nil {
		return err
	}
	return plotRegrets(rules, filepath.Join(p.Out, "selection"))
}

// choices are those of every criterion for one network, and the fixed ones.
func choices(ctx context.Context, p *networks.Plan, n networks.Measured) (r record, err error) {
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
	add := func(by, method string) error {
		auroc, ok := aurocs[method]
		if !ok {
			return fmt.Errorf("%s, chosen by %s, has no result", method, by)
		}
		r.Choices = append(r.Choices, choice{by, method, auroc})
		return nil
	}
	told, err := pseudoAUROCs(ctx, p.Methods, im.Training)
	if err != nil {
		return r, err
	}
	for _, rule := range rules() {
		ranked, err := rule.rank(p.Methods, told)
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

// lost is what a choice loses against the best in hindsight, by network.
type lost struct {
	by      string
	regrets []float64
}

func (l lost) mean() float64 { return stat.Mean(l.regrets, nil) }

// byRegret has every choice, the smallest mean first.
func byRegret(all []record) []lost {
	var list []lost
	for _, r := range all {
		for _, c := range r.Choices {
			i := slices.IndexFunc(list, func(l lost) bool { return l.by == c.By })
			if i < 0 {
				i, list = len(list), append(list, lost{by: c.By})
			}
			list[i].regrets = append(list[i].regrets, r.Best-c.AUROC)
		}
	}
	slices.SortStableFunc(list, func(a, b lost) int { return cmp.Compare(a.mean(), b.mean()) })
	return list
}

func show(w io.Writer, list []lost, networks int) {
	fmt.Fprintf(w, "AUROC lost against the best in hindsight, %d networks\n\n%-28s %6s %8s\n", networks, "choice", "mean", "largest")
	for _, l := range list {
		fmt.Fprintf(w, "%-28s %6s %8s\n", l.by, experiment.Short(l.mean(), 3), experiment.Short(slices.Max(l.regrets), 3))
	}
}

// plotRegrets draws what every choice loses, a dot for each network.
func plotRegrets(list []lost, path string) error {
	p := experiment.NewFigure("AUROC lost against the best in hindsight", "AUROC lost", "")
	var names []string
	var x, y, means, at []float64
	for i, l := range slices.Backward(list) {
		row := float64(len(list) - 1 - i)
		names, means, at = append(names, l.by), append(means, l.mean()), append(at, row)
		for _, v := range l.regrets {
			x, y = append(x, v), append(y, row)
		}
	}
	dots := p.Dots(x, y, experiment.Dot(experiment.Color(0), 1.8, draw.CircleGlyph{}))
	mean := p.Dots(means, at, experiment.Dot(experiment.Color(1), 4, draw.RingGlyph{}))
	p.Add(dots, mean)
	p.Legend.Add("a network", dots)
	p.Legend.Add("their mean", mean)
	p.NominalY(names...)
	p.X.Min, p.Y.Min, p.Y.Max = 0, -.5, float64(len(list))+1 // room for the legend
	return experiment.Save(path, 16, 10, []*experiment.Figure{p})
}
