// Package sets measures what is promised of classifiers whose logits and labels
// are given: how often sets of classes hold the right one, and how large they are;
// and how many rows are accepted at a share of errors, and how often that share is
// exceeded.
package sets

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// Experiment is what the command runs.
var Experiment = experiment.Experiment{
	Name:   "sets",
	Doc:    "sets of classes, and rows accepted at a share of errors, of classifiers",
	Shared: []string{"seeds"},
	New: func(flags *flag.FlagSet, s *experiment.Settings) func(ctx context.Context) error {
		experiment.Redefine(flags, "seeds", "200", "number of random splits")
		x := flags.String("x", "", "files of logits and labels that no network was trained on, as `attach features` writes them, `a.npz,b.npz`")
		cal := flags.Int("cal", 2000, "rows to calibrate on")
		return func(ctx context.Context) error {
			if *x == "" {
				return experiment.Usagef("say with --x where logits are")
			}
			for _, path := range strings.Split(*x, ",") {
				if err := run(ctx, s, path, *cal); err != nil {
					return err
				}
			}
			return nil
		}
	},
}

const alpha = .1

func run(ctx context.Context, s *experiment.Settings, path string, cal int) error {
	b, err := inputs.OpenFeatures(path)
	if err != nil {
		return err
	}
	if b.Labels == nil || b.Logits.Rows == 0 || cal < 1 || cal >= b.Len() {
		return fmt.Errorf("%s: its %d rows need logits and labels, and are to be more than the %d to calibrate on", path, b.Len(), cal)
	}
	all, err := calibrate.NewClassCalibration(b.Logits, b.Labels)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	fmt.Fprintf(s.Stdout, "%s: %d rows of %d classes, %.3f of them right, %d to calibrate on; %d splits\n",
		strings.TrimSuffix(filepath.Base(path), ".npz"), b.Len(), b.Logits.Cols, 1-errorAbove(all, 0).share, cal, s.Seeds)
	for _, o := range []calibrate.SetOptions{{Score: "lac"}, {Score: "aps"}, {Score: "raps"}, {Score: "saps"}} {
		for _, more := range []string{"", ", smoothed", ", by class", ", by cluster"} {
			o.Smoothed, o.ByClass, o.ByCluster = more == ", smoothed", more == ", by class", more == ", by cluster"
			covered, size, worst := make([]float64, s.Seeds), make([]float64, s.Seeds), make([]float64, s.Seeds)
			for seed := range s.Seeds {
				if err := ctx.Err(); err != nil {
					return err
				}
				o.Seed = uint64(seed)
				covered[seed], size[seed], worst[seed] = measure(ood.Batch{Logits: b.Logits, Labels: b.Labels}, o, cal)
			}
			fmt.Fprintf(s.Stdout, "  %-16s covers %.3f, its worst class %.3f, with %.2f classes\n", string(o.Score)+more, stat.Mean(covered, nil), stat.Mean(worst, nil), stat.Mean(size, nil))
		}
	}
	for _, epsilon := range []float64{.01, .02, .05} {
		var accepted, wrong []float64
		broken := 0
		for seed := range s.Seeds {
			// Of draws with replacement from all rows it is known what share of errors a
			// threshold has.
			drawn := make([]int, cal)
			for i := range drawn {
				drawn[i] = rand.New(rand.NewPCG(uint64(seed), uint64(i))).IntN(b.Len())
			}
			found, err := pick(all, drawn).Selective(nil, epsilon)
			if err != nil {
				return err
			}
			above := errorAbove(all, found.Confidence)
			accepted, wrong = append(accepted, above.rows), append(wrong, above.share)
			if above.share > epsilon {
				broken++
			}
		}
		fmt.Fprintf(s.Stdout, "  error %.2f: %.3f accepted, %.4f of them wrong; exceeded in %d of %d draws\n",
			epsilon, stat.Mean(accepted, nil), stat.Mean(wrong, nil), broken, s.Seeds)
	}
	return nil
}

// measure calibrates on cal rows and returns the coverage of the others, the mean
// size of their sets and the least coverage of a class of at least 20 of them.
func measure(all ood.Batch, o calibrate.SetOptions, cal int) (covered, size, worst float64) {
	order := rand.New(rand.NewPCG(o.Seed, 0)).Perm(all.Len())
	on, test := all.Select(order[:cal]), all.Select(order[cal:])
	c, err := calibrate.NewClassCalibration(on.Logits, on.Labels)
	if err != nil {
		panic(err) // all rows were checked
	}
	s, err := c.Sets(o, alpha)
	if err != nil {
		panic(err)
	}
	hits, rows := make([]float64, all.Logits.Cols), make([]float64, all.Logits.Cols)
	for i, set := range s.Predict(test.Logits, uint64(cal)) {
		y := test.Labels[i]
		rows[y]++
		size += float64(len(set))
		if slices.Contains(set, y) {
			hits[y]++
			covered++
		}
	}
	worst = 1
	for c, n := range rows {
		if n >= 20 {
			worst = min(worst, hits[c]/n)
		}
	}
	n := float64(test.Len())
	return covered / n, size / n, worst
}

func pick(c calibrate.ClassCalibration, rows []int) (part calibrate.ClassCalibration) {
	for _, r := range rows {
		part.Labels, part.Ranks, part.Top = append(part.Labels, c.Labels[r]), append(part.Ranks, c.Ranks[r]), append(part.Top, c.Top[r])
	}
	return part
}

// above are the rows above a confidence: their share of all, and how many of them
// are wrong.
type above struct{ rows, share float64 }

func errorAbove(c calibrate.ClassCalibration, confidence float64) (a above) {
	for i, top := range c.Top {
		if top > confidence {
			a.rows++
			a.share += experiment.Indicator(c.Ranks[i] > 0)
		}
	}
	a.share /= max(a.rows, 1)
	a.rows /= float64(len(c.Top))
	return a
}
