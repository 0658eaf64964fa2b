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

// cell summarises the results of one method on one pair over its configurations.
type cell struct {
	auroc, fpr95 compare.Summary
	fit, in, out int // numbers of rows
	variant      string
	failed       string // reason of the first failure
	failures     int
	seconds      float64 // total time of all fits
	scoreMicros  float64 // time to score one row, mean over configurations
}

func (c cell) empty() bool { return c.auroc.N == 0 }

// pair holds the results of every method for one network and one OOD set.
type pair struct {
	network networks.Measured
	out     string
	error   float64 // error rate of the network on in-distribution rows
	cells   map[string]cell
	rows    map[string]cell // results over the grid of each paperRow, keyed by the row's name
}

func (p pair) name() string { return p.network.Name + " / " + p.out }

// measured reports whether the pair has results or failures of any method.
func (p pair) measured() bool {
	for _, c := range p.cells {
		if !c.empty() || c.failed != "" {
			return true
		}
	}
	return false
}

// pairs collects the results of each pair.
func (s *settings) pairs(results *store) []pair {
	var pairs []pair
	for _, n := range s.Networks {
		for _, out := range n.Outs() {
			p := pair{network: n, out: out, cells: map[string]cell{}, rows: map[string]cell{}}
			rows := 0 // number of rows that gave p.error; some methods use only a few rows
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
						rows, p.error = r.In, r.Error
					}
				}
				p.cells[m.Name] = cellOf(records)
				if s.grid != "paper" {
					continue
				}
				for _, r := range paperRows() {
					if r.method == m.Name {
						p.rows[r.name] = cellOf(recordsOf(r.configs(m)))
					}
				}
			}
			pairs = append(pairs, p)
		}
	}
	return pairs
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
		c.scoreMicros += r.ScoreMicroseconds
	}
	if len(auroc) > 0 {
		c.scoreMicros /= float64(len(auroc))
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

// competes reports whether a method is ranked. The ranking excludes controls. It also
// excludes ensembles of dropout passes because the paper ranks single models.
func competes(m ood.Method) bool { return !m.Control && !strings.HasPrefix(m.Name, "bald") }

// methodSummary summarises one method over all pairs.
type methodSummary struct {
	method   string
	competes bool
	pairs    int     // number of pairs with a result
	mean     float64 // mean AUROC over these pairs
	// otherClasses summarises the pairs whose OOD set has the other classes of the training
	// set. otherSets summarises the remaining pairs.
	otherClasses, otherSets compare.Summary
	rank                    float64 // mean rank among competing methods over pairs with results; 0 if the method does not compete
	rankByMean              int     // rank by mean AUROC among competing methods with results for all pairs; 0 for other methods
	// gaps holds the gap to the best competing method on each pair, largest first.
	gaps []gap
	wins int // number of pairs on which no competing method is better; 0 if the method does not compete
}

// gap tells how far the AUROC of a method on a pair is below that of the best competing
// method. If no competing method is better, size is 0 and best is empty.
type gap struct {
	size       float64
	pair, best string
}

func (g gap) String() string {
	if g.best == "" {
		return fmt.Sprintf("%s (%s)", experiment.Short(g.size, 4), g.pair)
	}
	return fmt.Sprintf("%s (%s, to %s)", experiment.Short(g.size, 4), g.pair, g.best)
}

// worst returns the largest gap. The method must have results.
func (s methodSummary) worst() gap { return s.gaps[0] }

// summariseMethods returns the methods in descending order of the mean AUROC. Methods
// without results come last.
func summariseMethods(methods []ood.Method, pairs []pair) []methodSummary {
	var summaries []methodSummary
	for _, m := range methods {
		s := methodSummary{method: m.Name, competes: competes(m)}
		var aurocs, classes, sets []float64
		for _, p := range pairs {
			c := p.cells[m.Name]
			if c.empty() {
				continue
			}
			aurocs = append(aurocs, c.auroc.Mean)
			if p.out == networks.OtherClasses {
				classes = append(classes, c.auroc.Mean)
			} else {
				sets = append(sets, c.auroc.Mean)
			}
			g, better := p.gapToBest(methods, m.Name)
			s.gaps = append(s.gaps, g)
			if s.competes {
				s.rank += float64(better + 1)
				s.wins += int(experiment.Indicator(better == 0))
			}
		}
		s.pairs = len(aurocs)
		s.rank /= float64(max(s.pairs, 1))
		s.mean, s.otherClasses, s.otherSets = summarise(aurocs).Mean, summarise(classes), summarise(sets)
		slices.SortStableFunc(s.gaps, func(a, b gap) int { return cmp.Compare(b.size, a.size) })
		summaries = append(summaries, s)
	}
	slices.SortStableFunc(summaries, func(a, b methodSummary) int {
		if (a.pairs == 0) != (b.pairs == 0) {
			return cmp.Compare(experiment.Indicator(a.pairs == 0), experiment.Indicator(b.pairs == 0))
		}
		return cmp.Compare(b.mean, a.mean)
	})
	rank := 0
	for i := range summaries {
		if summaries[i].competes && summaries[i].pairs == len(pairs) {
			rank++
			summaries[i].rankByMean = rank
		}
	}
	return summaries
}

// gapToBest returns the gap of a method to the best competing one. It also counts the
// competing methods with a larger AUROC.
func (p pair) gapToBest(methods []ood.Method, name string) (g gap, better int) {
	g.pair = p.name()
	auroc := p.cells[name].auroc.Mean
	for _, m := range methods {
		c := p.cells[m.Name]
		if !competes(m) || c.empty() {
			continue
		}
		if difference := c.auroc.Mean - auroc; difference > 0 {
			better++
			if difference > g.size {
				g.size, g.best = difference, m.Name
			}
		}
	}
	return g, better
}

// wideGap is the largest gap for which verdict does not list a pair.
const wideGap = .02

// verdict returns a text on one method: its mean AUROC, the mean AUROC of its best rival,
// and its largest gap on any pair. A rival is a competing method other than fused with
// results on at least as many pairs. Each pair with a gap above wideGap has a further line.
// The text is empty if the method was not measured.
func verdict(name string, summaries []methodSummary) string {
	i := slices.IndexFunc(summaries, func(s methodSummary) bool { return s.method == name && s.pairs > 0 })
	if i < 0 {
		return ""
	}
	s := summaries[i]
	line := fmt.Sprintf("%s: mean AUROC %s", name, experiment.Short(s.mean, 4))
	rivals := slices.DeleteFunc(slices.Clone(summaries), func(r methodSummary) bool {
		return r.method == name || r.method == "fused" || !r.competes || r.pairs < s.pairs
	})
	if len(rivals) > 0 {
		line += fmt.Sprintf(", best single %s (%s)", experiment.Short(rivals[0].mean, 4), rivals[0].method)
	}
	line += fmt.Sprintf(", worst gap %v, over %d pairs", s.worst(), s.pairs)
	for _, g := range s.gaps {
		if g.size > wideGap {
			line += fmt.Sprintf("\n  more than %s below the best: %v", experiment.Short(wideGap, 2), g)
		}
	}
	return line
}
