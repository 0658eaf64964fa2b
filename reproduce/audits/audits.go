// Package audits measures what an audit promises on real networks: the share of
// false discoveries on average, and how often bounds are violated, of many draws of
// calibration rows and of audited rows with out-of-domain ones among them.
package audits

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/numeric/measure"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/networks"
)

// Experiment is what the command runs.
var Experiment = experiment.Experiment{
	Name:   "audits",
	Doc:    "false discoveries of audits, and bounds on them, of networks and a model of texts",
	Shared: []string{"data", "models", "sets", "seeds", "out", "ort-lib"},
	New: func(flags *flag.FlagSet, s *experiment.Settings) func(ctx context.Context) error {
		experiment.Redefine(flags, "seeds", "1000", "number of random draws")
		p := &networks.Plan{Settings: s, NetworkRows: 1}
		p.DefineWithTexts(flags, "4000,0,2000")
		return func(ctx context.Context) error { return run(ctx, p) }
	},
}

const (
	rows  = 2000 // audited at once
	delta = .1   // with which bounds are violated at most
)

func rates() [3]float64 { return [...]float64{.05, .1, .2} }

func run(ctx context.Context, p *networks.Plan) error {
	pools, err := Scored(ctx, p)
	if err != nil {
		return err
	}
	var cells []cell
	for _, scores := range pools {
		for _, n := range []int{500, 5000} {
			if n = min(n, len(scores.In)-rows); n < 1 {
				return fmt.Errorf("%s has %d in-distribution rows, but the audit needs %d and calibration some more", scores.Name, len(scores.In), rows)
			}
			for _, share := range []float64{0, .01, .05, .2} {
				if err := ctx.Err(); err != nil {
					return err
				}
				outliers := min(int(math.Round(share*rows)), len(scores.Out))
				c, err := scores.measure(n, outliers, p.Settings.Seeds, p.Seed)
				if err != nil {
					return fmt.Errorf("%s: %w", scores.Name, err)
				}
				cells = append(cells, c)
			}
		}
	}
	show(p.Stdout, pools, cells)
	return experiment.WriteCSV(filepath.Join(p.Out, "audits.csv"), lines(cells))
}

func show(w io.Writer, pools []Pool, cells []cell) {
	fmt.Fprintf(w, "%d rows audited; fraction of false discoveries ± standard error, and of outliers discovered, at false discovery rates of 0.05, 0.1 and 0.2\n", rows)
	fmt.Fprintf(w, "violated: fraction of draws with a bound at delta %g that does not hold, at any threshold, and of the number of outliers\n", delta)
	for _, scores := range pools {
		m, err := measure.Evaluate(scores.In, scores.Out)
		if err != nil {
			panic(err) // both have rows, and scores are numbers
		}
		fmt.Fprintf(w, "%s, %s: %d in-distribution and %d OOD rows to draw from, AUROC %.3f\n", scores.Name, scores.Method, len(scores.In), len(scores.Out), m.AUROC)
		for _, c := range cells {
			if c.set != scores.Name {
				continue
			}
			fmt.Fprintf(w, "  n_cal %4d, outliers %3d", c.n, c.outliers)
			for _, f := range c.found {
				fmt.Fprintf(w, "  %s %g %s±%s %s", f.procedure, f.rate, experiment.Short(f.share(), 3), experiment.Short(f.stderr(), 3), orNone(f.power(c.outliers)))
			}
			fmt.Fprintf(w, "  violated %s %s; outliers found by the bound %s\n",
				experiment.Short(c.bounds, 3), experiment.Short(c.lower, 3), orNone(c.least))
		}
	}
	within, tight, all := 0, 0, 0
	for _, c := range cells {
		for _, f := range c.found {
			all++
			within += int(experiment.Indicator(f.share() <= f.rate+2*f.stderr()))
		}
		tight += int(experiment.Indicator(c.bounds <= delta))
	}
	fmt.Fprintf(w, "false discoveries within the rate, or two standard errors above: %d of %d; bounds violated as often as they say at most: %d of %d\n", within, all, tight, len(cells))
}

// orNone is a share of the outliers, where there are any.
func orNone(share float64) string {
	if math.IsNaN(share) || math.IsInf(share, 0) {
		return "–"
	}
	return experiment.Short(share, 2)
}

func lines(cells []cell) [][]string {
	out := [][]string{{
		"set", "n_cal", "audited", "outliers", "draws", "procedure", "fdr", "false_share", "stderr", "power",
		"bound_violated", "outliers_bound_violated", "outliers_bound_share",
	}}
	for _, c := range cells {
		for _, f := range c.found {
			out = append(out, experiment.Cells(4, c.set, c.n, rows, c.outliers, len(f.shares),
				f.procedure, f.rate, f.share(), experiment.Known(f.stderr()), experiment.Known(f.power(c.outliers)),
				c.bounds, c.lower, experiment.Known(c.least)))
		}
	}
	return out
}

// cell is many draws of so many calibration rows and outliers.
type cell struct {
	set           string
	n, outliers   int
	found         []discovered
	bounds, lower float64 // shares of draws that violate bounds
	least         float64 // the mean share of outliers that the bound finds
}

// discovered is what a procedure calls outliers.
type discovered struct {
	procedure string
	rate      float64
	shares    []float64 // of false ones, a draw each
	hits      int       // true ones in all
}

func (d discovered) share() float64 { return stat.Mean(d.shares, nil) }
func (d discovered) stderr() float64 {
	return stat.StdErr(stat.StdDev(d.shares, nil), float64(len(d.shares)))
}
func (d discovered) power(outliers int) float64 {
	return float64(d.hits) / float64(outliers*len(d.shares))
}

func procedures() (all []discovered) {
	for _, name := range []string{"BH", "Storey"} {
		for _, rate := range rates() {
			all = append(all, discovered{procedure: name, rate: rate})
		}
	}
	return all
}

func (d discovered) options() calibrate.DiscoveryOptions {
	o := calibrate.DiscoveryOptions{FDR: d.rate}
	if d.procedure == "Storey" {
		o.Lambda = .5
	}
	return o
}

// measure draws, without replacement, n rows to calibrate on and rows to audit, so
// many of them outliers.
func (s Pool) measure(n, outliers, draws int, seed uint64) (cell, error) {
	c := cell{set: s.Name, n: n, outliers: outliers, found: procedures()}
	rng := rand.New(rand.NewPCG(seed, uint64(n)<<32|uint64(outliers)))
	for range draws {
		cal, in, out := s.draw(rng, n, outliers)
		conformal, err := calibrate.NewConformal(cal)
		if err != nil {
			return c, err
		}
		inliers, all := calibrate.NewRanks(n), calibrate.NewRanks(n)
		for _, score := range in {
			if err := inliers.Add(conformal.PValue(score)); err != nil {
				return c, err
			}
		}
		for _, score := range out {
			if err := all.Add(conformal.PValue(score)); err != nil {
				return c, err
			}
		}
		if err := all.Merge(inliers); err != nil {
			return c, err
		}
		for i := range c.found {
			f := &c.found[i]
			d, err := all.Discoveries(f.options())
			if err != nil {
				return c, err
			}
			wrong := 0
			for _, count := range inliers[:int(math.Round(d.PValue*float64(n+1)))] {
				wrong += count
			}
			f.shares = append(f.shares, float64(wrong)/float64(max(d.Count, 1)))
			f.hits += d.Count - wrong
		}
		b, err := all.OutlierBounds(delta)
		if err != nil {
			return c, err
		}
		// A threshold's bound is too small only where that of the inliers, a group like
		// any other, finds outliers among them.
		c.bounds += experiment.Indicator(b.Outliers(inliers) > 0) / float64(draws)
		c.lower += experiment.Indicator(b.Outliers(all) > outliers) / float64(draws)
		c.least += float64(b.Outliers(all)) / float64(outliers*draws)
	}
	return c, nil
}

func (s Pool) draw(rng *rand.Rand, n, outliers int) (cal, in, out []float64) {
	pick := func(from []float64, count int) []float64 {
		picked := slices.Clone(from)
		rng.Shuffle(len(picked), func(i, j int) { picked[i], picked[j] = picked[j], picked[i] })
		return picked[:count]
	}
	in = pick(s.In, n+rows-outliers)
	return in[:n], in[n:], pick(s.Out, outliers)
}
