// Package fusion selects how to fuse detectors of the last layer and of earlier layers. It
// leaves out each trained network in turn, selects a fusion by the results on the remaining
// networks, and measures this fusion on the network left out.
package fusion

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/numeric/measure"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/networks"
)

// Experiment is the fusion command.
var Experiment = experiment.Experiment{
	Name:    "fusion",
	Doc:     "the default detector of classifiers, chosen on all networks but one and measured on that one",
	Shared:  []string{"data", "models", "sets", "methods", "out", "ort-lib"},
	Resumes: true,
	New: func(flags *flag.FlagSet, shared *experiment.Settings) func(ctx context.Context) error {
		p := &networks.Plan{Settings: shared, TakesTexts: true}
		p.Define(flags, "4000,2000,2000")
		return func(ctx context.Context) error { return run(ctx, p) }
	},
}

// component is a detector that may be fused.
type component struct {
	method string
	params ood.Params
}

// components returns four detectors of the last layer, followed by two of earlier layers.
func components() []component {
	return []component{
		{"certificates-coupled", nil},
		{"certificates-coupled", ood.Params{"unit_norm": false, "weight": .67}},
		{"certificates-class", nil},
		{"relative-mahalanobis", nil},
		{"mahalanobis-layers", nil},
		{"mahalanobis-layers", ood.Params{"unit_norm": true}},
	}
}

// candidate describes one way to fuse −log p of the components. The fused score is the sum
// of two parts. The first part is the sum over the detectors of the last layer, weighted by
// lastWeights. The second part raises the values of earlier layers to the exponent power
// and sums them, weighted by layerWeights. It is then multiplied by baseWeight +
// uncertaintyWeight·u, where u is the network's mean uncertainty.
type candidate struct {
	lastWeights       [4]float64
	layerWeights      [2]float64
	baseWeight        float64
	uncertaintyWeight float64
	power             float64
}

func (c candidate) String() string {
	return fmt.Sprintf("last %v, layers %v × (%v + %v u), power %v", c.lastWeights, c.layerWeights, c.baseWeight, c.uncertaintyWeight, c.power)
}

// currentDefault returns the candidate that heads uses as fused-layers.
func currentDefault() candidate {
	return candidate{[4]float64{1}, [2]float64{.5, .5}, .15, .8, 2}
}

// previousDefault returns the earlier definition of fused-layers. Its components and
// weights were selected on ten of the networks.
func previousDefault() candidate {
	return candidate{[4]float64{0, 1}, [2]float64{1}, .5, 0, 1}
}

func candidates() []candidate {
	var list []candidate
	for _, lastWeights := range [][4]float64{{1}, {0, 1}, {.7, 0, .3}, {.75, 0, 0, .25}} {
		for _, layerWeights := range [][2]float64{{1, 0}, {0, 1}, {.5, .5}} {
			for _, baseWeight := range []float64{.35, .5, .7, 1} {
				for _, uncertaintyWeight := range []float64{0, 1, 2} {
					list = append(list, candidate{lastWeights, layerWeights, baseWeight, uncertaintyWeight, 1})
				}
			}
			for _, baseWeight := range []float64{.1, .15, .2, .25} {
				for _, uncertaintyWeight := range []float64{0, .4, .8, 1.2} {
					list = append(list, candidate{lastWeights, layerWeights, baseWeight, uncertaintyWeight, 2})
				}
			}
		}
	}
	return list
}

// key identifies the measurement of one network.
type key struct {
	Network string `json:"network"`
	SHA256  string `json:"sha256"`
	Rows    [3]int `json:"rows"`
	Seed    uint64 `json:"seed"`
}

func (k key) Key() key { return k }

// record holds the AUROCs of one network.
type record struct {
	key
	Unsure float64     `json:"unsure"`
	Sets   []setResult `json:"sets"`
}

// setResult holds the AUROCs on one out-of-distribution set.
type setResult struct {
	Set        string             `json:"set"`
	Methods    map[string]float64 `json:"methods"`
	Candidates []float64          `json:"candidates"`
}

// isNear reports whether the set has the same kind of input as the network's training data.
func (m setResult) isNear() bool {
	return slices.Contains([]string{networks.OtherClasses, "cifar100", "letters", "oos_test"}, m.Set)
}

// bestSingle returns the best method that is not a fusion.
func (m setResult) bestSingle() (name string, auroc float64) {
	for n, v := range m.Methods {
		if !strings.HasPrefix(n, "fused") && (v > auroc || v == auroc && n < name) {
			name, auroc = n, v
		}
	}
	return name, auroc
}

func run(ctx context.Context, p *networks.Plan) error {
	unusable := func(m ood.Method) bool { return m.Control || networks.RunsNetwork(m) || m.Needs.Outliers }
	if err := p.Check(ctx, unusable, "none to compare with"); err != nil {
		return err
	}
	if len(p.Networks)+int(experiment.Indicator(p.Texts)) < 2 {
		return errors.New("there is one network, and a choice made on the others takes two at least")
	}
	results, err := experiment.OpenStore[key, record](filepath.Join(p.Out, "fusion.jsonl"))
	if err != nil {
		return err
	}
	records, err := measureAll(ctx, p, results)
	if err = errors.Join(err, results.Close()); err != nil {
		return err
	}
	return printTable(p, records)
}

func measureAll(ctx context.Context, p *networks.Plan, results *experiment.Store[key, record]) (records []record, err error) {
	add := func(k key, load func() (*networks.Images, error)) error {
		r, err := results.Of(k, func() (r record, err error) {
			im, err := load()
			if err != nil {
				return r, err
			}
			defer im.Model.Close()
			if r, err = measureNetwork(ctx, p, im.Training, im.In, im.Outs); err == nil {
				r.key = k
				fmt.Fprintln(p.Stderr, k.Network)
			}
			return r, err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", k.Network, err)
		}
		records = append(records, r)
		return nil
	}
	if p.Texts {
		err := add(key{networks.Texts, "", [3]int{}, p.Seed}, func() (*networks.Images, error) {
			model, b, err := p.ReadTexts(ctx, []string{"val", "test", "oos_test"}, func(float64) {})
			if err != nil {
				return nil, err
			}
			t := ood.Training{Batch: b[0], Last: model.Last(), Trainer: p.Trainer, Seed: p.Seed}
			return &networks.Images{Model: model, Training: t, In: b[1], Outs: []compare.OODSet{{Name: "oos_test", Batch: b[2]}}}, nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, n := range p.Networks {
		err := add(key{n.Name, n.SHA256, p.Rows, p.Seed}, func() (*networks.Images, error) { return p.Load(ctx, n, func(float64) {}) })
		if err != nil {
			return nil, err
		}
	}
	return records, nil
}

// measureNetwork measures every method and candidate on one network.
func measureNetwork(ctx context.Context, p *networks.Plan, t ood.Training, in ood.Batch, outs []compare.OODSet) (r record, err error) {
	for i := range t.Logits.Rows {
		r.Unsure += (1 - softmax.New(rows.Row(t.Logits, i), 1).Largest()) / float64(t.Logits.Rows)
	}
	report, err := compare.Run(ctx, compare.Options{Methods: p.Methods, Training: t, Test: in, OODSets: outs})
	if err != nil {
		return r, err
	}
	detectors := components()
	inScores, outScores := make([][]float64, len(detectors)), make([][][]float64, len(detectors))
	for i, component := range detectors {
		m, _ := attach.MethodByName(component.method)
		s, err := fitting.Fit(ctx, heads.Fused("alone", "harmonic", heads.Component{Method: m, Params: component.params}), t, nil)
		if err != nil {
			return r, fmt.Errorf("%s: %w", component.method, err)
		}
		if inScores[i], err = s.Score(ctx, nil, in); err != nil {
			return r, err
		}
		for _, o := range outs {
			scores, err := s.Score(ctx, nil, o.Batch)
			if err != nil {
				return r, err
			}
			outScores[i] = append(outScores[i], scores)
		}
	}
	for j, o := range outs {
		m := setResult{Set: o.Name, Methods: map[string]float64{}}
		for _, method := range report.Methods {
			if len(method.Configs) == 0 {
				continue
			}
			m.Methods[method.Name] = method.Configs[0].AUROC
			if len(outs) > 1 {
				m.Methods[method.Name] = method.Configs[0].Sets[j].AUROC
			}
		}
		setScores := make([][]float64, len(detectors))
		for i := range detectors {
			setScores[i] = outScores[i][j]
		}
		for _, c := range candidates() {
			auroc, err := measure.AUROC(c.scores(inScores, r.Unsure), c.scores(setScores, r.Unsure))
			if err != nil {
				return r, err
			}
			m.Candidates = append(m.Candidates, auroc)
		}
		r.Sets = append(r.Sets, m)
	}
	return r, nil
}

// scores fuses the rows' −log p, indexed by component and row. uncertainty is the network's
// mean uncertainty.
func (c candidate) scores(negLogP [][]float64, uncertainty float64) []float64 {
	s := make([]float64, len(negLogP[0]))
	for i, component := range negLogP {
		for r, v := range component {
			if i < len(c.lastWeights) {
				s[r] += c.lastWeights[i] * v
			} else {
				s[r] += c.layerWeights[i-len(c.lastWeights)] * (c.baseWeight + c.uncertaintyWeight*uncertainty) * min(math.Pow(v, c.power), 1e300)
			}
		}
	}
	return s
}

// criterion selects a candidate. The smallest value wins.
type criterion struct {
	name  string
	value func(aurocs, gaps []float64) float64
}

func criteria() []criterion {
	return []criterion{
		{"mean", func(aurocs, _ []float64) float64 { return -stat.Mean(aurocs, nil) }},
		{"largest gap", func(_, gaps []float64) float64 { return slices.Max(gaps) }},
		{"mean square gap", func(_, gaps []float64) (sum float64) {
			for _, g := range gaps {
				sum += max(g, 0) * max(g, 0)
			}
			return sum
		}},
	}
}

// bestCandidate returns the index of the candidate that this criterion selects on the given
// networks.
func (g criterion) bestCandidate(records []record) int {
	best, smallest := 0, math.Inf(1)
	for i := range candidates() {
		var aurocs, gaps []float64
		for _, r := range records {
			for _, m := range r.Sets {
				_, single := m.bestSingle()
				aurocs, gaps = append(aurocs, m.Candidates[i]), append(gaps, single-m.Candidates[i])
			}
		}
		if v := g.value(aurocs, gaps); v < smallest {
			best, smallest = i, v
		}
	}
	return best
}

// summary collects the results of one detector on all pairs of a network and an
// out-of-distribution set. A gap is the AUROC of the best single method minus that of the
// detector.
type summary struct {
	aurocs, gaps, nearGaps, farGaps []float64
	worst                           [2]string // the pair with the largest gap, among near sets and among far sets
}

func (s *summary) add(network string, m setResult, auroc float64) {
	name, single := m.bestSingle()
	gap := single - auroc
	gaps, index := &s.farGaps, 1
	if m.isNear() {
		gaps, index = &s.nearGaps, 0
	}
	if len(*gaps) == 0 || gap > slices.Max(*gaps) {
		s.worst[index] = network + " / " + m.Set + ", to " + name
	}
	*gaps = append(*gaps, gap)
	s.aurocs, s.gaps = append(s.aurocs, auroc), append(s.gaps, gap)
}

func (s *summary) line(name string) []string {
	largestGap := func(gaps []float64) string {
		if len(gaps) == 0 {
			return ""
		}
		return experiment.Short(slices.Max(gaps), 3)
	}
	sorted := slices.Sorted(slices.Values(s.gaps))
	return []string{
		name, fmt.Sprintf("%.4f", stat.Mean(s.aurocs, nil)), largestGap(s.nearGaps), s.worst[0], largestGap(s.farGaps), s.worst[1],
		experiment.Short(stat.Quantile(.95, stat.Empirical, sorted, nil), 3),
	}
}

func printTable(p *networks.Plan, records []record) error {
	lines := [][]string{{"detector", "mean AUROC", "largest gap near", "on", "largest gap far", "on", "gap below which 95 % of pairs lie"}}
	pairs := 0
	for _, r := range records {
		pairs += len(r.Sets)
	}
	for _, g := range criteria() {
		var s summary
		chosen := map[int]int{}
		for i, heldOut := range records {
			others := slices.Delete(slices.Clone(records), i, i+1)
			c := g.bestCandidate(others)
			chosen[c]++
			for _, m := range heldOut.Sets {
				s.add(heldOut.Network, m, m.Candidates[c])
			}
		}
		lines = append(lines, s.line("chosen on the others by "+g.name))
		for c, n := range chosen {
			fmt.Fprintf(p.Stderr, "%s: %d times %v\n", g.name, n, candidates()[c])
		}
	}
	for _, c := range []candidate{currentDefault(), previousDefault()} {
		var s summary
		index := slices.Index(candidates(), c)
		for _, r := range records {
			for _, m := range r.Sets {
				s.add(r.Network, m, m.Candidates[index])
			}
		}
		lines = append(lines, s.line(c.String()))
	}
	singles := map[string]*summary{}
	for _, r := range records {
		for _, m := range r.Sets {
			for n, v := range m.Methods {
				if singles[n] == nil {
					singles[n] = &summary{}
				}
				singles[n].add(r.Network, m, v)
			}
		}
	}
	order := slices.Collect(func(yield func(string) bool) {
		for n, s := range singles {
			if len(s.aurocs) == pairs && !yield(n) {
				return
			}
		}
	})
	slices.SortFunc(order, func(a, b string) int {
		return cmp.Or(cmp.Compare(stat.Mean(singles[b].aurocs, nil), stat.Mean(singles[a].aurocs, nil)), strings.Compare(a, b))
	})
	for _, n := range order {
		lines = append(lines, singles[n].line(n))
	}
	fmt.Fprintf(p.Stdout, "%d networks, %d pairs\n", len(records), pairs)
	for i, l := range lines {
		if i < 20 {
			fmt.Fprintln(p.Stdout, strings.Join(l, " | "))
		}
	}
	return experiment.WriteCSV(filepath.Join(p.Out, "fusion.csv"), lines)
}
