// Package fewrows measures audits with few calibration rows: how many outliers they discover,
// and whether the false discovery rate holds. It compares Benjamini and Hochberg's procedure
// with procedures that could discover more.
package fewrows

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
	"github.com/attach-uncertainty/attach/reproduce/audits"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/networks"
)

// Experiment is the fewrows command.
var Experiment = experiment.Experiment{
	Name:   "fewrows",
	Doc:    "audits with few calibration rows, by several procedures",
	Shared: []string{"data", "models", "sets", "seeds", "out", "ort-lib"},
	New: func(flags *flag.FlagSet, s *experiment.Settings) func(ctx context.Context) error {
		experiment.Redefine(flags, "seeds", "500", "number of random draws")
		p := &networks.Plan{Settings: s, NetworkRows: 1}
		p.DefineWithTexts(flags, "4000,0,2000")
		return func(ctx context.Context) error { return run(ctx, p) }
	},
}

const (
	rate  = .1 // false discovery rate
	delta = .1 // probability with which a bound may be violated
	folds = 5  // number of detectors that score the fit rows, each on rows it was not fitted with
)

// source draws scores of inliers and of outliers.
type source struct {
	name    string
	in, out func(rng *rand.Rand) float64
}

// sampled returns a source that draws from the rows of a pool with replacement. A pool then has
// enough rows for any number of inputs. The draws are independent, so guarantees must hold.
func sampled(p audits.Pool) source {
	from := func(scores []float64) func(*rand.Rand) float64 {
		return func(rng *rand.Rand) float64 { return scores[rng.IntN(len(scores))] }
	}
	return source{p.Name, from(p.In), from(p.Out)}
}

// normal returns a source of normal scores. The scores of outliers are higher by shift.
func normal(shift float64) source {
	return source{
		fmt.Sprintf("normal, %g higher", shift),
		func(rng *rand.Rand) float64 { return rng.NormFloat64() },
		func(rng *rand.Rand) float64 { return shift + rng.NormFloat64() },
	}
}

func run(ctx context.Context, p *networks.Plan) error {
	pools, err := audits.Scored(ctx, p, folds)
	if err != nil {
		return err
	}
	sources := []source{normal(6), normal(3)}
	for _, pool := range pools {
		sources = append(sources, sampled(pool))
	}
	lines := [][]string{{"set", "n_cal", "audited", "outliers", "draws", "procedure", "fdr", "false_share", "stderr", "power", "least", "draws_with_discoveries", "false_share_of_these", "bound_violated", "bound_share"}}
	var cells []*cell
	for _, s := range sources {
		fmt.Fprintf(p.Stdout, "%s: at a false discovery rate of %g, false discoveries ± standard error, and the fraction of outliers discovered\n", s.name, rate)
		for _, audited := range []int{1000, 10000} {
			for _, n := range []int{50, 100, 200, 500, 1000} {
				for _, fraction := range []float64{.01, .05, .1} {
					if err := ctx.Err(); err != nil {
						return err
					}
					c := &cell{n: n, audited: audited, outliers: int(math.Round(fraction * float64(audited)))}
					if err := c.measure(s, p.Settings.Seeds, p.Seed); err != nil {
						return fmt.Errorf("%s: %w", s.name, err)
					}
					cells = append(cells, c)
					fmt.Fprintf(p.Stdout, "  m %5d, n_cal %4d, outliers %4d", audited, n, c.outliers)
					for _, t := range c.tallies {
						fmt.Fprintf(p.Stdout, "  %s %s±%s %s", t.procedure, experiment.Short(t.mean(), 3), experiment.Short(t.stderr(), 3), experiment.Short(t.power(c.outliers), 2))
						lines = append(lines, experiment.Cells(4, s.name, n, audited, c.outliers, len(t.falseFractions), t.procedure, rate, t.mean(), t.stderr(), t.power(c.outliers), t.least, t.any, experiment.Known(t.meanIfAny()), c.violated, c.bounded))
					}
					fmt.Fprintf(p.Stdout, "  bound violated %s, finds %s\n", experiment.Short(c.violated, 3), experiment.Short(c.bounded, 2))
				}
			}
		}
	}
	summarise(p.Stdout, cells)
	if err := experiment.WriteCSV(filepath.Join(p.Out, "fewrows.csv"), lines); err != nil {
		return err
	}
	return fitRows(p, pools)
}

// summarise compares the procedures with the first one, over all cells.
func summarise(w io.Writer, cells []*cell) {
	within, total := 0, 0
	for i, t := range cells[0].tallies {
		var gains, least, draws, falsely []float64
		for _, c := range cells {
			first, t := c.tallies[0], c.tallies[i]
			total++
			within += int(experiment.Indicator(t.mean() <= rate+2*t.stderr()))
			gains = append(gains, t.power(c.outliers)-first.power(c.outliers))
			least = append(least, float64(t.least)/float64(first.least))
			if 2*c.outliers <= first.least {
				draws = append(draws, float64(t.any))
				if t.any > 0 {
					falsely = append(falsely, t.meanIfAny())
				}
			}
		}
		fmt.Fprintf(w, "%s: power %+.2f to %+.2f relative to BH, smallest number %.2f to %.2f of that of BH\n", t.procedure, slices.Min(gains), slices.Max(gains), slices.Min(least), slices.Max(least))
		if len(falsely) > 0 {
			fmt.Fprintf(w, "  with at most half as many outliers as BH needs (%d of %d settings): %g to %g draws with discoveries, %.2f to %.2f of these false\n", len(draws), len(cells), slices.Min(draws), slices.Max(draws), slices.Min(falsely), slices.Max(falsely))
		}
	}
	fmt.Fprintf(w, "false discoveries within the rate, or two standard errors above: %d of %d\n", within, total)
}

// cell holds the results of many draws with the same numbers of rows.
type cell struct {
	n, audited, outliers int
	tallies              []*tally
	violated, bounded    float64 // fraction of draws with too high a bound, and the mean bound as a fraction of the outliers
}

// tally collects the discoveries of one procedure.
type tally struct {
	procedure       string
	falseFractions  []float64 // fraction of false discoveries in each draw
	trueDiscoveries int       // number of true discoveries in all draws
	any             int       // number of draws with discoveries
	least           int       // smallest possible number of discoveries other than 0, in the last draw
}

func (t *tally) mean() float64 { return stat.Mean(t.falseFractions, nil) }

// meanIfAny returns the mean fraction of false discoveries in draws with discoveries. It is NaN
// if there are none.
func (t *tally) meanIfAny() float64 {
	return t.mean() * float64(len(t.falseFractions)) / float64(t.any)
}
func (t *tally) stderr() float64 {
	return stat.StdErr(stat.StdDev(t.falseFractions, nil), float64(len(t.falseFractions)))
}
func (t *tally) power(outliers int) float64 {
	return float64(t.trueDiscoveries) / float64(outliers*len(t.falseFractions))
}

func (t *tally) add(found, falsely int) {
	t.falseFractions = append(t.falseFractions, float64(falsely)/float64(max(1, found)))
	t.trueDiscoveries += found - falsely
	if found > 0 {
		t.any++
	}
}

// measure repeats random draws. All procedures get the same draws.
func (c *cell) measure(s source, draws int, seed uint64) error {
	bh, storey, smoothed, highest := &tally{procedure: "BH"}, &tally{procedure: "Storey"}, &tally{procedure: "smoothed BH"}, &tally{procedure: "highest"}
	c.tallies = []*tally{bh, storey, smoothed, highest}
	smoothed.least, highest.least = 1, leastHighest(c.n, c.audited, rate)
	rng := rand.New(rand.NewPCG(seed, uint64(c.n)<<32|uint64(c.audited)<<16|uint64(c.outliers)))
	for range draws {
		inliers, all, err := s.draw(rng, c.n, c.audited, c.outliers)
		if err != nil {
			return err
		}
		for _, t := range []struct {
			*tally
			lambda float64
		}{{bh, 0}, {storey, .5}} {
			d, err := all.Discoveries(calibrate.DiscoveryOptions{FDR: rate, Lambda: t.lambda})
			if err != nil {
				return err
			}
			t.add(d.Count, countUpTo(inliers, d.PValue))
			t.least = d.Least
		}
		smoothed.add(smoothedDiscoveries(rng, inliers, all))
		if all[0] >= highest.least {
			highest.add(all[0], inliers[0])
		} else {
			highest.add(0, 0)
		}
		b, err := all.OutlierBounds(delta)
		if err != nil {
			return err
		}
		c.violated += experiment.Indicator(b.Outliers(inliers) > 0) / float64(draws)
		c.bounded += float64(b.Outliers(all)) / float64(c.outliers*draws)
	}
	return nil
}

// draw draws n calibration rows and the audited rows, and ranks the audited rows.
func (s source) draw(rng *rand.Rand, n, audited, outliers int) (inliers, all calibrate.Ranks, err error) {
	scores := make([]float64, n)
	for i := range scores {
		scores[i] = s.in(rng)
	}
	c, err := calibrate.NewConformal(scores)
	if err != nil {
		return nil, nil, err
	}
	inliers, all = calibrate.NewRanks(n), calibrate.NewRanks(n)
	for range audited - outliers {
		if err := inliers.Add(c.PValue(s.in(rng))); err != nil {
			return nil, nil, err
		}
	}
	for range outliers {
		if err := all.Add(c.PValue(s.out(rng))); err != nil {
			return nil, nil, err
		}
	}
	return inliers, all, all.Merge(inliers)
}

func countUpTo(r calibrate.Ranks, p float64) (sum int) {
	for _, count := range r[:int(math.Round(p*float64(len(r))))] {
		sum += count
	}
	return sum
}

// smoothedDiscoveries returns the numbers of discoveries and of false ones by Benjamini and
// Hochberg's procedure on smoothed p-values: (k+U)/(n+1) for the row with p-value
// (k+1)/(n+1), with a uniform U for each row. They can be smaller than 1/(n+1).
func smoothedDiscoveries(rng *rand.Rand, inliers, all calibrate.Ranks) (found, falsely int) {
	type row struct {
		p      float64
		inlier bool
	}
	var list []row
	for k, count := range all {
		for i := range count {
			list = append(list, row{(float64(k) + rng.Float64()) / float64(len(all)), i < inliers[k]})
		}
	}
	slices.SortFunc(list, func(a, b row) int {
		if a.p < b.p {
			return -1
		}
		return 1
	})
	for i, r := range list {
		if float64(len(list))*r.p <= rate*float64(i+1) {
			found = i + 1
		}
	}
	for _, r := range list[:found] {
		if r.inlier {
			falsely++
		}
	}
	return found, falsely
}

// leastHighest returns the smallest number k for which this procedure keeps the false discovery
// rate: report all rows above the highest calibration score if there are at least k of them,
// and no row otherwise.
//
// Given the scores of the outliers, let S of them be above the highest calibration score, and
// V inliers. S grows with V, because both count rows above the same score, so the false
// discovery rate E[V/(V+S); V+S ≥ k] is highest for a constant S. Given the constant s and
// m−s inliers, P(V ≥ v) is the probability that the v highest of all inliers and calibration
// rows are inliers.
func leastHighest(n, rows int, rate float64) int {
	const negligible = 1e-12
	low, high := 1, rows+1 // high always keeps the rate
	for low < high {
		k := (low + high) / 2
		highest := 0.
		for s := range k {
			inliers := rows - s
			sum, atLeast := 0., 1. // atLeast is P(V ≥ v)
			for v := 0; v <= inliers && atLeast > negligible; v++ {
				next := atLeast * float64(inliers-v) / float64(n+inliers-v)
				if v > 0 && v+s >= k {
					sum += (atLeast - next) * float64(v) / float64(v+s)
				}
				atLeast = next
			}
			highest = max(highest, sum)
		}
		if highest <= rate {
			high = k
		} else {
			low = k + 1
		}
	}
	return low
}

// fitRows measures what happens if the fit rows take the place of the calibration rows. The
// detectors that score them were not fitted with them, but the network was trained on them.
func fitRows(p *networks.Plan, pools []audits.Pool) error {
	const audited, outliers = 1000, 50
	for _, pool := range pools {
		c, err := calibrate.NewConformal(pool.OutOfFold)
		if err != nil {
			return fmt.Errorf("%s: %w", pool.Name, err)
		}
		s, t := sampled(pool), &tally{}
		rng := rand.New(rand.NewPCG(p.Seed, 1))
		for range p.Settings.Seeds {
			inliers, all := calibrate.NewRanks(len(c.Scores)), calibrate.NewRanks(len(c.Scores))
			for i := range audited {
				score := s.in
				if i < outliers {
					score = s.out
				}
				v := c.PValue(score(rng))
				if err := all.Add(v); err != nil {
					return err
				}
				if i >= outliers {
					if err := inliers.Add(v); err != nil {
						return err
					}
				}
			}
			d, err := all.Discoveries(calibrate.DiscoveryOptions{FDR: rate})
			if err != nil {
				return err
			}
			t.add(d.Count, countUpTo(inliers, d.PValue))
		}
		fmt.Fprintf(p.Stdout, "%s, calibrated with %d fit rows: of %d rows with %d outliers, false discoveries %s±%s, outliers discovered %s\n",
			pool.Name, len(c.Scores), audited, outliers, experiment.Short(t.mean(), 3), experiment.Short(t.stderr(), 3), experiment.Short(t.power(outliers), 2))
	}
	return nil
}
