package table2

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/networks"
)

// cell summarises a method on a pair over its configurations.
type cell struct {
	auroc, fpr95 compare.Summary
	fit, in, out int // numbers of rows
	variant      string
	failed       string // reason of the first configuration that failed
	failures     int
	seconds      float64 // of all fits
	micros       float64 // for one score, mean over configurations
}

func (c cell) none() bool { return c.auroc.N == 0 }

// pair is a network and an OOD set, with the results of every method.
type pair struct {
	network networks.Measured
	out     string
	error   float64 // error rate of the network on in-distribution rows
	cells   map[string]cell
	rows    map[string]cell // for the rows of paperRows, over their grids
}

func (p pair) name() string { return p.network.Name + " / " + p.out }

// measured reports whether any method was tried on the pair.
func (p pair) measured() bool {
	for _, c := range p.cells {
		if !c.none() || c.failed != "" {
			return true
		}
	}
	return false
}

// pairs collects the results by pair.
func (s *settings) pairs(results *store) []pair {
	var all []pair
	for _, n := range s.Networks {
		for _, out := range n.Outs() {
			one := pair{network: n, out: out, cells: map[string]cell{}, rows: map[string]cell{}}
			rows := 0 // rows behind the network's error; some methods use only a few
			for _, m := range s.Methods {
				j := fitJob{network: n, method: m, rows: s.rowsOf(m), seed: s.Seed}
				recordsOf := func(configs []ood.Params) []record {
					var records []record
					for _, config := range configs {
						if r, ok := results.Records[j.keyOf(out, config)]; ok {
							records = append(records, r)
						}
					}
					return records
				}
				records := recordsOf(s.configsOf(m))
				for _, r := range records {
					if r.Failed == "" && r.In > rows {
						rows, one.error = r.In, r.Error
					}
				}
				one.cells[m.Name] = cellOf(records)
				if s.grid != "paper" {
					continue
				}
				for _, r := range paperRows() {
					if r.method == m.Name {
						one.rows[r.name] = cellOf(recordsOf(r.configs(m)))
					}
				}
			}
			all = append(all, one)
		}
	}
	return all
}

func cellOf(records []record) cell {
	var c cell
	var auroc, fpr95 []float64
	for _, r := range records {
		if r.Failed != "" {
			c.failed, c.failures = cmp.Or(c.failed, r.Failed), c.failures+1
			continue
		}
		auroc, fpr95 = append(auroc, r.AUROC), append(fpr95, r.FPR95In)
		c.fit, c.in, c.out, c.variant = r.Fit, r.In, r.N, r.Variant
		c.seconds += r.FitSeconds
		c.micros += r.ScoreMicroseconds
	}
	if len(auroc) > 0 {
		c.micros /= float64(len(auroc))
	}
	c.auroc, c.fpr95 = summarise(auroc), summarise(fpr95)
	return c
}

func summarise(x []float64) compare.Summary {
	if len(x) == 0 {
		return compare.Summary{}
	}
	mean, std := stat.PopMeanStdDev(x, nil)
	return compare.Summary{Mean: mean, Std: std, Max: slices.Max(x), N: len(x)}
}

// competes reports whether a method is ranked. Controls are not ranked. Ensembles of passes
// with dropout are not either, because the paper ranks single models.
func competes(m ood.Method) bool { return !m.Control && !strings.HasPrefix(m.Name, "bald") }

// standing summarises a method over all pairs.
type standing struct {
	method   string
	competes bool
	pairs    int     // pairs with a result
	mean     float64 // mean AUROC over these pairs
	// classes is over the pairs with other classes of the training set, and sets over the
	// pairs with other sets.
	classes, sets compare.Summary
	rank          float64 // mean rank over its pairs among methods that compete; 0 if it does not compete
	byMean        int     // rank by mean AUROC among competing methods with every pair; 0 for the others
	// gaps holds, for each pair, how far the method is below the best competing one, widest
	// first.
	gaps  []gap
	first int // pairs on which no other competing method is better
}

// gap is how far a method is below the best on a pair. to is empty if the method is the best
// itself.
type gap struct {
	auroc  float64
	on, to string
}

func (g gap) String() string {
	if g.to == "" {
		return fmt.Sprintf("%s (%s)", experiment.Short(g.auroc, 4), g.on)
	}
	return fmt.Sprintf("%s (%s, to %s)", experiment.Short(g.auroc, 4), g.on, g.to)
}

// worst returns the widest gap. The method must have results.
func (s standing) worst() gap { return s.gaps[0] }

// standings returns the methods by falling mean, those without results last.
func standings(methods []ood.Method, pairs []pair) []standing {
	var all []standing
	for _, m := range methods {
		s := standing{method: m.Name, competes: competes(m)}
		var every, classes, sets []float64
		for _, p := range pairs {
			c := p.cells[m.Name]
			if c.none() {
				continue
			}
			every = append(every, c.auroc.Mean)
			if p.out == networks.OtherClasses {
				classes = append(classes, c.auroc.Mean)
			} else {
				sets = append(sets, c.auroc.Mean)
			}
			g, above := p.below(methods, m.Name)
			s.gaps = append(s.gaps, g)
			if s.competes {
				s.rank += float64(above + 1)
				s.first += int(experiment.Indicator(above == 0))
			}
		}
		s.pairs = len(every)
		s.rank /= float64(max(s.pairs, 1))
		s.mean, s.classes, s.sets = summarise(every).Mean, summarise(classes), summarise(sets)
		slices.SortStableFunc(s.gaps, func(a, b gap) int { return cmp.Compare(b.auroc, a.auroc) })
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b standing) int {
		if (a.pairs == 0) != (b.pairs == 0) {
			return cmp.Compare(experiment.Indicator(a.pairs == 0), experiment.Indicator(b.pairs == 0))
		}
		return cmp.Compare(b.mean, a.mean)
	})
	rank := 0
	for i := range all {
		if all[i].competes && all[i].pairs == len(pairs) {
			rank++
			all[i].byMean = rank
		}
	}
	return all
}

// below returns how far a method is below the best competing one, and how many competing
// methods are above it.
func (p pair) below(methods []ood.Method, name string) (g gap, above int) {
	g.on = p.name()
	own := p.cells[name].auroc.Mean
	for _, m := range methods {
		c := p.cells[m.Name]
		if !competes(m) || c.none() {
			continue
		}
		if wide := c.auroc.Mean - own; wide > 0 {
			above++
			if wide > g.auroc {
				g.auroc, g.to = wide, m.Name
			}
		}
	}
	return g, above
}

// wideGap is the gap to the best on a pair above which verdict lists the pair.
const wideGap = .02

// verdict returns a line on a method's mean AUROC, the best single method (not fused) and the
// widest gap to the best on any pair. A line for each pair with a wide gap follows. It returns
// "" if the method was not measured.
func verdict(name string, all []standing) string {
	i := slices.IndexFunc(all, func(s standing) bool { return s.method == name && s.pairs > 0 })
	if i < 0 {
		return ""
	}
	s := all[i]
	line := fmt.Sprintf("%s: mean AUROC %s", name, experiment.Short(s.mean, 4))
	rivals := slices.DeleteFunc(slices.Clone(all), func(r standing) bool {
		return r.method == name || r.method == "fused" || !r.competes || r.pairs < s.pairs
	})
	if len(rivals) > 0 {
		line += fmt.Sprintf(", best single %s (%s)", experiment.Short(rivals[0].mean, 4), rivals[0].method)
	}
	line += fmt.Sprintf(", worst gap %v, over %d pairs", s.worst(), s.pairs)
	for _, g := range s.gaps {
		if g.auroc > wideGap {
			line += fmt.Sprintf("\n  more than %s below the best: %v", experiment.Short(wideGap, 2), g)
		}
	}
	return line
}
