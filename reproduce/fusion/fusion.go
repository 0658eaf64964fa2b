// Package fusion chooses how detectors of the last layer and of earlier layers are
// fused, on all trained networks but one, and measures the choice on that one.
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

// Experiment is what the command runs.
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

// part is a detector that may be fused.
type part struct {
	method string
	params ood.Params
}

// parts are those of the last layer, and after them those of earlier layers.
func parts() []part {
	return []part{
		{"certificates-coupled", nil},
		{"certificates-coupled", ood.Params{"unit_norm": false, "weight": .67}},
		{"certificates-class", nil},
		{"relative-mahalanobis", nil},
		{"mahalanobis-layers", nil},
		{"mahalanobis-layers", ood.Params{"unit_norm": true}},
	}
}

// candidate is one way of fusing: weights of the parts of the last layer, those of
// the others, how much is added to these times how unsure the network is, and
// whether their −log p is squared.
type candidate struct {
	last   [4]float64
	layers [2]float64
	weight float64
	unsure float64
	power  float64
}

func (c candidate) String() string {
	return fmt.Sprintf("last %v, layers %v × (%v + %v u), power %v", c.last, c.layers, c.weight, c.unsure, c.power)
}

// attached is the candidate that heads has as fused-layers.
func attached() candidate {
	return candidate{[4]float64{1}, [2]float64{.5, .5}, .15, .8, 2}
}

// former is what fused-layers was before, whose parts and weights were chosen on ten of
// the networks.
func former() candidate {
	return candidate{[4]float64{0, 1}, [2]float64{1}, .5, 0, 1}
}

func candidates() []candidate {
	var all []candidate
	for _, last := range [][4]float64{{1}, {0, 1}, {.7, 0, .3}, {.75, 0, 0, .25}} {
		for _, layers := range [][2]float64{{1, 0}, {0, 1}, {.5, .5}} {
			for _, weight := range []float64{.35, .5, .7, 1} {
				for _, unsure := range []float64{0, 1, 2} {
					all = append(all, candidate{last, layers, weight, unsure, 1})
				}
			}
			for _, weight := range []float64{.1, .15, .2, .25} {
				for _, unsure := range []float64{0, .4, .8, 1.2} {
					all = append(all, candidate{last, layers, weight, unsure, 2})
				}
			}
		}
	}
	return all
}

// key is what a network was measured with.
type key struct {
	Network string `json:"network"`
	SHA256  string `json:"sha256"`
	Rows    [3]int `json:"rows"`
	Seed    uint64 `json:"seed"`
}

func (k key) Key() key { return k }

// record is a network's AUROCs.
type record struct {
	key
	Unsure float64    `json:"unsure"`
	Sets   []measured `json:"sets"`
}

// measured are AUROCs on one out-of-domain set.
type measured struct {
	Set        string             `json:"set"`
	Methods    map[string]float64 `json:"methods"`
	Candidates []float64          `json:"candidates"`
}

// near says that the set is of the same kind of input as the network's own.
func (m measured) near() bool {
	return slices.Contains([]string{networks.OtherClasses, "cifar100", "letters", "oos_test"}, m.Set)
}

// best is the best of the methods that stand alone.
func (m measured) best() (name string, auroc float64) {
	for n, v := range m.Methods {
		if !strings.HasPrefix(n, "fused") && (v > auroc || v == auroc && n < name) {
			name, auroc = n, v
		}
	}
	return name, auroc
}

func run(ctx context.Context, p *networks.Plan) error {
	drop := func(m ood.Method) bool { return m.Control || networks.RunsNetwork(m) || m.Needs.Outliers }
	if err := p.Check(ctx, drop, "none to compare with"); err != nil {
		return err
	}
	if len(p.Networks)+int(experiment.Indicator(p.Texts)) < 2 {
		return errors.New("there is one network, and a choice made on the others takes two at least")
	}
	results, err := experiment.OpenStore[key, record](filepath.Join(p.Out, "fusion.jsonl"))
	if err != nil {
		return err
	}
	all, err := measureAll(ctx, p, results)
	if err = errors.Join(err, results.Close()); err != nil {
		return err
	}
	return show(p, all)
}

func measureAll(ctx context.Context, p *networks.Plan, results *experiment.Store[key, record]) (all []record, err error) {
	add := func(k key, load func() (*networks.Images, error)) error {
		r, err := results.Of(k, func() (r record, err error) {
			im, err := load()
			if err != nil {
				return r, err
			}
			defer im.Model.Close()
			if r, err = one(ctx, p, im.Training, im.In, im.Outs); err == nil {
				r.key = k
				fmt.Fprintln(p.Stderr, k.Network)
			}
			return r, err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", k.Network, err)
		}
		all = append(all, r)
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
	return all, nil
}

// one measures every method and candidate on a network.
func one(ctx context.Context, p *networks.Plan, t ood.Training, in ood.Batch, outs []compare.OODSet) (r record, err error) {
	for i := range t.Logits.Rows {
		r.Unsure += (1 - softmax.New(rows.Row(t.Logits, i), 1).Largest()) / float64(t.Logits.Rows)
	}
	report, err := compare.Run(ctx, compare.Options{Methods: p.Methods, Training: t, Test: in, OODSets: outs})
	if err != nil {
		return r, err
	}
	all := parts()
	inside, outside := make([][]float64, len(all)), make([][][]float64, len(all))
	for i, part := range all {
		m, _ := attach.MethodByName(part.method)
		s, err := fitting.Fit(ctx, heads.Fused("alone", "harmonic", heads.Component{Method: m, Params: part.params}), t, nil)
		if err != nil {
			return r, fmt.Errorf("%s: %w", part.method, err)
		}
		if inside[i], err = s.Score(ctx, nil, in); err != nil {
			return r, err
		}
		for _, o := range outs {
			scores, err := s.Score(ctx, nil, o.Batch)
			if err != nil {
				return r, err
			}
			outside[i] = append(outside[i], scores)
		}
	}
	for j, o := range outs {
		m := measured{Set: o.Name, Methods: map[string]float64{}}
		for _, of := range report.Methods {
			if len(of.Configs) == 0 {
				continue
			}
			m.Methods[of.Name] = of.Configs[0].AUROC
			if len(outs) > 1 {
				m.Methods[of.Name] = of.Configs[0].Sets[j].AUROC
			}
		}
		of := make([][]float64, len(all))
		for i := range all {
			of[i] = outside[i][j]
		}
		for _, c := range candidates() {
			auroc, err := measure.AUROC(c.scores(inside, r.Unsure), c.scores(of, r.Unsure))
			if err != nil {
				return r, err
			}
			m.Candidates = append(m.Candidates, auroc)
		}
		r.Sets = append(r.Sets, m)
	}
	return r, nil
}

// scores fuses −log p of rows, by part.
func (c candidate) scores(surprises [][]float64, unsure float64) []float64 {
	s := make([]float64, len(surprises[0]))
	for i, part := range surprises {
		for r, v := range part {
			if i < len(c.last) {
				s[r] += c.last[i] * v
			} else {
				s[r] += c.layers[i-len(c.last)] * (c.weight + c.unsure*unsure) * min(math.Pow(v, c.power), 1e300)
			}
		}
	}
	return s
}

// goal is what a choice is made by: the smallest wins.
type goal struct {
	name string
	of   func(aurocs, gaps []float64) float64
}

func goals() []goal {
	return []goal{
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

// choose returns the number of the candidate that does best on the networks.
func (g goal) choose(all []record) int {
	best, least := 0, math.Inf(1)
	for i := range candidates() {
		var aurocs, gaps []float64
		for _, r := range all {
			for _, m := range r.Sets {
				_, single := m.best()
				aurocs, gaps = append(aurocs, m.Candidates[i]), append(gaps, single-m.Candidates[i])
			}
		}
		if v := g.of(aurocs, gaps); v < least {
			best, least = i, v
		}
	}
	return best
}

// standing is how a detector does on all pairs.
type standing struct {
	aurocs, gaps, near, far []float64
	worst                   [2]string // the pair of the largest gap, near and far
}

func (s *standing) add(network string, m measured, auroc float64) {
	name, single := m.best()
	gap := single - auroc
	of, side := &s.far, 1
	if m.near() {
		of, side = &s.near, 0
	}
	if len(*of) == 0 || gap > slices.Max(*of) {
		s.worst[side] = network + " / " + m.Set + ", to " + name
	}
	*of = append(*of, gap)
	s.aurocs, s.gaps = append(s.aurocs, auroc), append(s.gaps, gap)
}

func (s *standing) line(name string) []string {
	largest := func(gaps []float64) string {
		if len(gaps) == 0 {
			return ""
		}
		return experiment.Short(slices.Max(gaps), 3)
	}
	sorted := slices.Sorted(slices.Values(s.gaps))
	return []string{
		name, fmt.Sprintf("%.4f", stat.Mean(s.aurocs, nil)), largest(s.near), s.worst[0], largest(s.far), s.worst[1],
		experiment.Short(stat.Quantile(.95, stat.Empirical, sorted, nil), 3),
	}
}

func show(p *networks.Plan, all []record) error {
	lines := [][]string{{"detector", "mean AUROC", "largest gap near", "on", "largest gap far", "on", "gap below which 95 % of pairs lie"}}
	pairs := 0
	for _, r := range all {
		pairs += len(r.Sets)
	}
	for _, g := range goals() {
		var s standing
		chosen := map[int]int{}
		for i, left := range all {
			others := slices.Delete(slices.Clone(all), i, i+1)
			c := g.choose(others)
			chosen[c]++
			for _, m := range left.Sets {
				s.add(left.Network, m, m.Candidates[c])
			}
		}
		lines = append(lines, s.line("chosen on the others by "+g.name))
		for c, n := range chosen {
			fmt.Fprintf(p.Stderr, "%s: %d times %v\n", g.name, n, candidates()[c])
		}
	}
	for _, c := range []candidate{attached(), former()} {
		var s standing
		at := slices.Index(candidates(), c)
		for _, r := range all {
			for _, m := range r.Sets {
				s.add(r.Network, m, m.Candidates[at])
			}
		}
		lines = append(lines, s.line(c.String()))
	}
	singles := map[string]*standing{}
	for _, r := range all {
		for _, m := range r.Sets {
			for n, v := range m.Methods {
				if singles[n] == nil {
					singles[n] = &standing{}
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
	fmt.Fprintf(p.Stdout, "%d networks, %d pairs\n", len(all), pairs)
	for i, l := range lines {
		if i < 20 {
			fmt.Fprintln(p.Stdout, strings.Join(l, " | "))
		}
	}
	return experiment.WriteCSV(filepath.Join(p.Out, "fusion.csv"), lines)
}
