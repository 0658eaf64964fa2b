// Package audits measures two guarantees of an audit on real networks: the mean fraction of
// false discoveries, and how often bounds are violated. It repeats random draws of
// calibration rows and of audited rows that include out-of-distribution rows.
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

// Experiment is the audits command.
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
	auditedRows = 2000 // number of rows in one audit
	delta       = .1   // probability with which a bound may be violated
)

func falseDiscoveryRates() [3]float64 { return [...]float64{.05, .1, .2} }

func run(ctx context.Context, p *networks.Plan) error {
	pools, err := Scored(ctx, p, 0)
	if err != nil {
		return err
	}
	var cells []cell
	for _, scores := range pools {
		for _, n := range []int{500, 5000} {
			if n = min(n, len(scores.In)-auditedRows); n < 1 {
				return fmt.Errorf("%s has %d in-distribution rows, but the audit needs %d and calibration some more", scores.Name, len(scores.In), auditedRows)
			}
			for _, outlierFraction := range []float64{0, .01, .05, .2} {
				if err := ctx.Err(); err != nil {
					return err
				}
				outliers := min(int(math.Round(outlierFraction*auditedRows)), len(scores.Out))
				c, err := scores.measure(n, outliers, p.Settings.Seeds, p.Seed)
				if err != nil {
					return fmt.Errorf("%s: %w", scores.Name, err)
				}
				cells = append(cells, c)
			}
		}
	}
	printTable(p.Stdout, pools, cells)
	return experiment.WriteCSV(filepath.Join(p.Out, "audits.csv"), csvLines(cells))
}

func printTable(w io.Writer, pools []Pool, cells []cell) {
	fmt.Fprintf(w, "%d rows audited; fraction of false discoveries ± standard error, and of outliers discovered, at false discovery rates of 0.05, 0.1 and 0.2\n", auditedRows)
	fmt.Fprintf(w, "violated: fraction of draws with a bound at delta %g that does not hold, at any threshold, and of the number of outliers\n", delta)
	for _, scores := range pools {
		m, err := measure.Evaluate(scores.In, scores.Out)
		if err != nil {
			panic(err) // cannot fail: both sets have rows, and their scores are numbers
		}
		fmt.Fprintf(w, "%s, %s: %d in-distribution and %d OOD rows to draw from, AUROC %.3f\n", scores.Name, scores.Method, len(scores.In), len(scores.Out), m.AUROC)
		for _, c := range cells {
			if c.set != scores.Name {
				continue
			}
			fmt.Fprintf(w, "  n_cal %4d, outliers %3d", c.n, c.outliers)
			for _, f := range c.discoveries {
				fmt.Fprintf(w, "  %s %g %s±%s %s", f.procedure, f.rate, experiment.Short(f.falseFraction(), 3), experiment.Short(f.stderr(), 3), formatFraction(f.power(c.outliers)))
			}
			fmt.Fprintf(w, "  violated %s %s; outliers found by the bound %s\n",
				experiment.Short(c.boundViolations, 3), experiment.Short(c.outlierBoundViolations, 3), formatFraction(c.boundedFraction))
		}
	}
	withinRate, boundsHold, total := 0, 0, 0
	for _, c := range cells {
		for _, f := range c.discoveries {
			total++
			withinRate += int(experiment.Indicator(f.falseFraction() <= f.rate+2*f.stderr()))
		}
		boundsHold += int(experiment.Indicator(c.boundViolations <= delta))
	}
	fmt.Fprintf(w, "false discoveries within the rate, or two standard errors above: %d of %d; bounds violated as often as they say at most: %d of %d\n", withinRate, total, boundsHold, len(cells))
}

// formatFraction formats a fraction of the outliers, or a dash if there are no outliers.
func formatFraction(fraction float64) string {
	if math.IsNaN(fraction) || math.IsInf(fraction, 0) {
		return "–"
	}
	return experiment.Short(fraction, 2)
}

func csvLines(cells []cell) [][]string {
	out := [][]string{{
		"set", "n_cal", "audited", "outliers", "draws", "procedure", "fdr", "false_share", "stderr", "power",
		"bound_violated", "outliers_bound_violated", "outliers_bound_share",
	}}
	for _, c := range cells {
		for _, f := range c.discoveries {
			out = append(out, experiment.Cells(4, c.set, c.n, auditedRows, c.outliers, len(f.falseFractions),
				f.procedure, f.rate, f.falseFraction(), experiment.Known(f.stderr()), experiment.Known(f.power(c.outliers)),
				c.boundViolations, c.outlierBoundViolations, experiment.Known(c.boundedFraction)))
		}
	}
	return out
}

// cell holds the results of many draws with the same numbers of calibration rows and
// outliers.
type cell struct {
	set                                     string
	n, outliers                             int
	discoveries                             []discoveryStats
	boundViolations, outlierBoundViolations float64 // fractions of draws that violate a bound
	boundedFraction                         float64 // the bound's mean count of outliers, as a fraction of all outliers
}

// discoveryStats collects the discoveries of one procedure at one rate.
type discoveryStats struct {
	procedure       string
	rate            float64
	falseFractions  []float64 // fraction of false discoveries in each draw
	trueDiscoveries int       // number of true discoveries in all draws
}

func (d discoveryStats) falseFraction() float64 { return stat.Mean(d.falseFractions, nil) }
func (d discoveryStats) stderr() float64 {
	return stat.StdErr(stat.StdDev(d.falseFractions, nil), float64(len(d.falseFractions)))
}
func (d discoveryStats) power(outliers int) float64 {
	return float64(d.trueDiscoveries) / float64(outliers*len(d.falseFractions))
}

func procedures() (all []discoveryStats) {
	for _, name := range []string{"BH", "Storey"} {
		for _, rate := range falseDiscoveryRates() {
			all = append(all, discoveryStats{procedure: name, rate: rate})
		}
	}
	return all
}

func (d discoveryStats) options() calibrate.DiscoveryOptions {
	o := calibrate.DiscoveryOptions{FDR: d.rate}
	if d.procedure == "Storey" {
		o.Lambda = .5
	}
	return o
}

// measure repeats random draws without replacement: n calibration rows and auditedRows rows
// to audit, including the given number of outliers.
func (s Pool) measure(n, outliers, draws int, seed uint64) (cell, error) {
	c := cell{set: s.Name, n: n, outliers: outliers, discoveries: procedures()}
	rng := rand.New(rand.NewPCG(seed, uint64(n)<<32|uint64(outliers)))
	for range draws {
		cal, in, out := s.draw(rng, n, outliers)
		conformal, err := calibrate.NewConformal(cal)
		if err != nil {
			return c, err
		}
		inliers, audited := calibrate.NewRanks(n), calibrate.NewRanks(n)
		for _, score := range in {
			if err := inliers.Add(conformal.PValue(score)); err != nil {
				return c, err
			}
		}
		for _, score := range out {
			if err := audited.Add(conformal.PValue(score)); err != nil {
				return c, err
			}
		}
		if err := audited.Merge(inliers); err != nil {
			return c, err
		}
		for i := range c.discoveries {
			f := &c.discoveries[i]
			d, err := audited.Discoveries(f.options())
			if err != nil {
				return c, err
			}
			falseCount := 0
			for _, count := range inliers[:int(math.Round(d.PValue*float64(n+1)))] {
				falseCount += count
			}
			f.falseFractions = append(f.falseFractions, float64(falseCount)/float64(max(d.Count, 1)))
			f.trueDiscoveries += d.Count - falseCount
		}
		b, err := audited.OutlierBounds(delta)
		if err != nil {
			return c, err
		}
		// The group inliers contains no outlier. If its lower bound is 0, the bounds at all
		// thresholds hold.
		c.boundViolations += experiment.Indicator(b.Outliers(inliers) > 0) / float64(draws)
		c.outlierBoundViolations += experiment.Indicator(b.Outliers(audited) > outliers) / float64(draws)
		c.boundedFraction += float64(b.Outliers(audited)) / float64(outliers*draws)
	}
	return c, nil
}

func (s Pool) draw(rng *rand.Rand, n, outliers int) (cal, in, out []float64) {
	sample := func(scores []float64, count int) []float64 {
		shuffled := slices.Clone(scores)
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		return shuffled[:count]
	}
	in = sample(s.In, n+auditedRows-outliers)
	return in[:n], in[n:], sample(s.Out, outliers)
}
