package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/internal/inputs"
	"github.com/attach-uncertainty/attach/ood"
)

// selectionExperiment chooses a detector for every trained network without
// out-of-domain images, and says how far it is from the best in hindsight. It
// reads what table2 reads, and keeps features and results as table2 does.
var selectionExperiment = experiment{
	name:  "selection",
	doc:   "detectors chosen without out-of-domain data, by every criterion, and how far they are from the best",
	uses:  []string{"data", "models", "sets", "ort-lib"},
	flags: selectionFlags,
	run:   runSelection,
}

type selectionSettings struct {
	out, rows, methods string
	seed               uint64
}

func selectionFlags(flags *flag.FlagSet, s *settings) {
	o := &s.selection
	flags.StringVar(&o.out, "out", "selection", "`folder` for features and the table")
	flags.StringVar(&o.rows, "rows", "1000,500,500", "at most `N` rows to fit with and in every set to measure on, or FIT,IN,OUT (0: all)")
	flags.StringVar(&o.methods, "methods", "", "choose among these `methods` alone, a,b")
	flags.Uint64Var(&o.seed, "seed", 0, "seed of the rows drawn and of methods")
	flags.Lookup("sets").Usage = networksUsage()
}

// fixedChoices are methods that one may take without choosing.
func fixedChoices() []string {
	return []string{"fused-layers", "fused", "certificates-coupled", "knn", "vim", "energy"}
}

// beforeNetwork is the choice by mean rank where the network is not at hand.
const beforeNetwork = "mean-rank, features alone"

// selectionKey is what choices were made from.
type selectionKey struct {
	Network string `json:"network"`
	SHA256  string `json:"sha256"`
	Methods string `json:"methods"`
	Rows    [3]int `json:"rows"`
	Seed    uint64 `json:"seed"`
}

func (k selectionKey) key() selectionKey { return k }

// selectionRecord are the choices for one network.
type selectionRecord struct {
	selectionKey
	Best    float64  `json:"best_auroc"` // in hindsight
	Choices []choice `json:"choices"`
}

// choice is a method and how it was chosen.
type choice struct {
	By     string  `json:"by"`
	Method string  `json:"method"`
	AUROC  float64 `json:"auroc"` // the mean over the out-of-domain sets
}

func runSelection(ctx context.Context, s settings) error {
	o := s.selection
	s.detection = detectionSettings{methods: o.methods, grid: "default", out: o.out, rows: o.rows, parallel: 1, seed: o.seed}
	p, err := planTable2(ctx, s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.out, 0o755); err != nil {
		return err
	}
	p.methods = slices.DeleteFunc(p.methods, func(m ood.Method) bool { return m.Control || runsNetwork(m) })
	if len(p.methods) == 0 {
		return fmt.Errorf("%w: --methods names none to choose from: controls and methods that run the network are not chosen", errUsage)
	}
	stop, err := useRuntimeBLAS(ctx, s.library)
	if err != nil {
		return err
	}
	defer stop()
	results, err := openStore[selectionKey, selectionRecord](filepath.Join(p.out, "selection.jsonl"))
	if err != nil {
		return err
	}
	err = p.choose(ctx, s, results)
	return errors.Join(err, results.close())
}

func (p detectionPlan) choose(ctx context.Context, s settings, results *store[selectionKey, selectionRecord]) error {
	var names []string
	for _, m := range p.methods {
		names = append(names, m.Name)
	}
	var all []selectionRecord
	for i, n := range p.networks {
		k := selectionKey{Network: n.name, SHA256: n.sha256, Methods: strings.Join(names, ","), Rows: p.rows, Seed: p.seed}
		if !results.has(k) {
			r, err := p.choices(ctx, s, n)
			if err != nil {
				return fmt.Errorf("%s: %w", n.name, err)
			}
			r.selectionKey = k
			if err := results.add([]selectionRecord{r}); err != nil {
				return err
			}
			fmt.Fprintf(s.stderr, "%s, %d of %d networks\n", n.name, i+1, len(p.networks))
		}
		all = append(all, results.records[k])
	}
	for _, line := range p.notRun {
		fmt.Fprintln(s.stdout, line)
	}
	if err := printSelection(s.stdout, all); err != nil {
		return err
	}
	return writeFile(filepath.Join(p.out, "selection.csv"), func(w io.Writer) error { return writeSelection(w, all) })
}

// choices are those of every criterion for one network, and the fixed ones.
func (p detectionPlan) choices(ctx context.Context, s settings, n measuredNetwork) (r selectionRecord, err error) {
	im, err := p.load(ctx, s, n, func(float64) {})
	if err != nil {
		return r, err
	}
	defer im.model.Close()
	t := im.training
	if t.Inputs, err = p.fitInputs(ctx, s, n, im); err != nil {
		return r, err
	}
	report, err := ood.Compare(ctx, ood.Comparison{Methods: p.methods, Training: t, In: im.in, OutSets: im.outs})
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
	choose := func(by string, criterion ood.Criterion, t ood.Training) error {
		chosen, err := ood.Select(ctx, ood.Selection{Methods: p.methods, Training: t, Criterion: criterion})
		if err != nil {
			return fmt.Errorf("%s: %w", by, err)
		}
		return add(by, chosen.Method)
	}
	for _, c := range ood.Criteria() {
		if err := choose(string(c), c, t); err != nil {
			return r, err
		}
	}
	t.Inputs = nil
	if err := choose(beforeNetwork, ood.MeanRank, t); err != nil {
		return r, err
	}
	for _, name := range fixedChoices() {
		if !slices.ContainsFunc(p.methods, func(m ood.Method) bool { return m.Name == name }) {
			continue
		}
		if err := add("always "+name, name); err != nil {
			return r, err
		}
	}
	return r, nil
}

// fitInputs are the images that the network's features to fit with are of.
func (p detectionPlan) fitInputs(ctx context.Context, s settings, n measuredNetwork, im *images) (ood.Inputs, error) {
	layout := inputs.Layout(strings.ToLower(im.model.Info().Layout))
	o, err := n.reading(p.models, layout, im.model.InputShape())
	if err != nil {
		return nil, err
	}
	set, err := n.parts(s.data)[0].open(ctx, o, p.rows[0], p.seed)
	if err != nil {
		return nil, err
	}
	x, err := set.All(ctx)
	if err != nil {
		return nil, err
	}
	return ood.InputsOf(append([]int{x.Rows}, set.Shape()...), x.Data), nil
}

// printSelection prints mean and largest regret of every choice, the smallest
// mean first.
func printSelection(w io.Writer, all []selectionRecord) error {
	var order []string
	regrets := map[string][]float64{}
	for _, r := range all {
		for _, c := range r.Choices {
			if regrets[c.By] == nil {
				order = append(order, c.By)
			}
			regrets[c.By] = append(regrets[c.By], r.Best-c.AUROC)
		}
	}
	mean := func(by string) float64 { return stat.Mean(regrets[by], nil) }
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(mean(a), mean(b)) })
	fmt.Fprintf(w, "AUROC lost against the best in hindsight, %d networks\n\n%-28s %6s %8s\n", len(all), "choice", "mean", "largest")
	for _, by := range order {
		if _, err := fmt.Fprintf(w, "%-28s %6s %8s\n", by, short(mean(by), 3), short(slices.Max(regrets[by]), 3)); err != nil {
			return err
		}
	}
	return nil
}

func writeSelection(w io.Writer, all []selectionRecord) error {
	out := csv.NewWriter(w)
	out.Write([]string{"network", "choice", "method", "auroc", "best_auroc", "regret"})
	for _, r := range all {
		for _, c := range r.Choices {
			out.Write([]string{r.Network, c.By, c.Method, sixDigits(c.AUROC), sixDigits(r.Best), sixDigits(r.Best - c.AUROC)})
		}
	}
	out.Flush()
	return out.Error()
}
