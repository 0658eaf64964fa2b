// Package sets measures two guarantees of classifiers from given logits and labels. For
// prediction sets, it measures coverage and size. For selective prediction, it measures the
// fraction of accepted rows at a target error rate. It also measures how often the error
// rate of accepted rows exceeds the target.
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

// Experiment is the sets command.
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
	allRows, err := calibrate.NewClassCalibration(b.Logits, b.Labels)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	fmt.Fprintf(s.Stdout, "%s: %d rows of %d classes, %.3f of them right, %d to calibrate on; %d splits\n",
		strings.TrimSuffix(filepath.Base(path), ".npz"), b.Len(), b.Logits.Cols, 1-acceptanceAbove(allRows, 0).errorRate, cal, s.Seeds)
	for _, o := range []calibrate.SetOptions{{Score: "lac"}, {Score: "aps"}, {Score: "raps"}, {Score: "saps"}} {
		for _, variant := range []string{"", ", smoothed", ", by class", ", by cluster"} {
			o.Smoothed, o.ByClass, o.ByCluster = variant == ", smoothed", variant == ", by class", variant == ", by cluster"
			covered, size, worst := make([]float64, s.Seeds), make([]float64, s.Seeds), make([]float64, s.Seeds)
			for seed := range s.Seeds {
				if err := ctx.Err(); err != nil {
					return err
				}
				o.Seed = uint64(seed)
				covered[seed], size[seed], worst[seed] = measure(ood.Batch{Logits: b.Logits, Labels: b.Labels}, o, cal)
			}
			fmt.Fprintf(s.Stdout, "  %-16s covers %.3f, its worst class %.3f, with %.2f classes\n", string(o.Score)+variant, stat.Mean(covered, nil), stat.Mean(worst, nil), stat.Mean(size, nil))
		}
	}
	for _, epsilon := range []float64{.01, .02, .05} {
		var acceptedFractions, errorRates []float64
		exceeded := 0
		for seed := range s.Seeds {
			// Draw with replacement. The population is then exactly all rows, so the true
			// error rate of a threshold is known.
			resampled := make([]int, cal)
			for i := range resampled {
				resampled[i] = rand.New(rand.NewPCG(uint64(seed), uint64(i))).IntN(b.Len())
			}
			threshold, err := selectRows(allRows, resampled).Selective(nil, epsilon)
			if err != nil {
				return err
			}
			selected := acceptanceAbove(allRows, threshold.Confidence)
			acceptedFractions, errorRates = append(acceptedFractions, selected.fraction), append(errorRates, selected.errorRate)
			if selected.errorRate > epsilon {
				exceeded++
			}
		}
		fmt.Fprintf(s.Stdout, "  error %.2f: %.3f accepted, %.4f of them wrong; exceeded in %d of %d draws\n",
			epsilon, stat.Mean(acceptedFractions, nil), stat.Mean(errorRates, nil), exceeded, s.Seeds)
	}
	return nil
}

// measure draws cal rows at random to calibrate on, and tests on all other rows. It returns
// the coverage, the mean set size, and the lowest coverage of a class. Classes with fewer
// than 20 test rows do not count for the lowest coverage.
func measure(allRows ood.Batch, o calibrate.SetOptions, cal int) (covered, size, worst float64) {
	order := rand.New(rand.NewPCG(o.Seed, 0)).Perm(allRows.Len())
	calibration, test := allRows.Select(order[:cal]), allRows.Select(order[cal:])
	c, err := calibrate.NewClassCalibration(calibration.Logits, calibration.Labels)
	if err != nil {
		panic(err) // cannot fail, because run has checked all rows
	}
	s, err := c.Sets(o, alpha)
	if err != nil {
		panic(err)
	}
	hits, rows := make([]float64, allRows.Logits.Cols), make([]float64, allRows.Logits.Cols)
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

func selectRows(c calibrate.ClassCalibration, rows []int) (part calibrate.ClassCalibration) {
	for _, r := range rows {
		part.Labels, part.Ranks, part.Top = append(part.Labels, c.Labels[r]), append(part.Ranks, c.Ranks[r]), append(part.Top, c.Top[r])
	}
	return part
}

// acceptance describes the rows above a confidence threshold: their fraction of all rows
// and their error rate.
type acceptance struct{ fraction, errorRate float64 }

func acceptanceAbove(c calibrate.ClassCalibration, confidence float64) (a acceptance) {
	for i, top := range c.Top {
		if top > confidence {
			a.fraction++
			a.errorRate += experiment.Indicator(c.Ranks[i] > 0)
		}
	}
	a.errorRate /= max(a.fraction, 1)
	a.fraction /= float64(len(c.Top))
	return a
}
