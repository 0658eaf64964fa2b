// Package coverage tests the guarantee of conformalized quantile regression with every
// method that predicts quantiles. For n calibration rows, the guaranteed mean coverage over
// random splits is ⌈(1−α)(n+1)⌉/(n+1). With tied scores, plain intervals cover at least
// this often, and smoothed intervals exactly this often.
//
// Every method has its default parameters, except for the epochs that --epochs sets. No rows
// are therefore needed for tuning, and calibration takes the whole held-out fifth.
package coverage

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/intervals"
	"github.com/attach-uncertainty/attach/reproduce/uci"
)

// Experiment is the coverage command.
var Experiment = experiment.Experiment{
	Name:    "coverage",
	Doc:     "coverage of conformalized intervals of every method on the UCI regression sets",
	Shared:  []string{"data", "sets", "methods", "seeds", "epochs", "parallel", "out", "ort-lib"},
	Resumes: true,
	New: func(flags *flag.FlagSet, s *experiment.Settings) func(ctx context.Context) error {
		plan := intervals.Define(flags, s)
		return func(ctx context.Context) error {
			p, err := plan()
			if err != nil {
				return err
			}
			return run(ctx, s, p)
		}
	},
}

// record holds the measurements of one method on one split. All intervals are closed,
// except the smoothed ones.
type record struct {
	intervals.Case
	NCal     int                `json:"n_cal"`
	NTest    int                `json:"n_test"`
	Raw      intervals.Measured `json:"raw"`
	CQR      intervals.Measured `json:"cqr"`
	Smoothed float64            `json:"cqr_smoothed"` // coverage of smoothed intervals
	Tied     float64            `json:"tied"`         // fraction of test rows with a score equal to the calibrated threshold
}

func run(ctx context.Context, s *experiment.Settings, p intervals.Plan) error {
	results, err := experiment.OpenStore[intervals.Case, record](filepath.Join(s.Out, "coverage.jsonl"))
	if err != nil {
		return err
	}
	defer results.Close()
	if _, err := intervals.RunDefaults(ctx, s, p, results, measure); err != nil {
		return err
	}
	summaries := summarise(s, p, results)
	printTable(s.Stdout, summaries)
	return experiment.WriteCSV(filepath.Join(s.Out, "coverage.csv"), csvLines(summaries))
}

// measure fits a method with its defaults to one split, calibrates it and measures its
// intervals.
func measure(ctx context.Context, s *experiment.Settings, m ood.Method, data uci.Data, k intervals.Case, progress func(float64)) (record, error) {
	parts := experiment.SplitRows(data.X.Rows, uint64(k.Seed))
	fit := data.Select(parts.Fit)
	levels := intervals.LevelsOf(k.Coverage)
	alpha := 2 * levels[0]
	p := ood.Params{}
	if m.Needs.Trainer {
		p["epochs"] = s.Epochs
	}
	f, err := fitting.Fit(ctx, m, ood.Training{
		Batch: ood.Batch{Features: fit.X}, Targets: fit.Y, Trainer: s.Trainer,
		Levels: levels, Seed: uint64(k.Seed), Progress: progress,
	}, p)
	if err != nil {
		return record{}, err
	}
	cal, test := intervals.Predicted(f, data.Select(parts.Cal), levels), intervals.Predicted(f, data.Select(parts.Test), levels)
	r := record{Case: k, NCal: len(cal.Y), NTest: len(test.Y), Raw: test.Measure(alpha, data.Spread)}
	r.Raw.PICP = test.Closed()
	if r.CQR, err = test.Conformalized(cal, alpha, data.Spread); err != nil {
		return r, err
	}
	r.Smoothed, r.Tied, err = test.Smoothed(cal, alpha, uint64(k.Seed))
	return r, err
}

// summary holds the results of one method on one set over all splits.
type summary struct {
	set, method                             string
	coverage                                float64
	seeds, nCal, nTest                      int
	expected, mean, stderr, empiricalStdErr float64 // expected and stderr come from theory, mean and empiricalStdErr from the splits
	smoothed, tied                          float64
	raw, rawWidth, width                    float64
}

func (r summary) z() float64         { return (r.mean - r.expected) / r.stderr }
func (r summary) zSmoothed() float64 { return (r.smoothed - r.expected) / r.stderr }

func summarise(s *experiment.Settings, p intervals.Plan, results *experiment.Store[intervals.Case, record]) []summary {
	var summaries []summary
	for _, coverage := range p.Coverages {
		for _, set := range p.Sets {
			for _, m := range p.Methods {
				summarised := summary{set: set.Name, method: m.Name, coverage: coverage, seeds: s.Seeds}
				var covered, smoothed, tied, raw, rawWidth, width []float64
				for seed := range s.Seeds {
					r := results.Records[intervals.CaseOfDefault(set.Name, seed, m, coverage, s.Epochs)]
					summarised.nCal, summarised.nTest = r.NCal, r.NTest
					covered, smoothed, tied = append(covered, r.CQR.PICP), append(smoothed, r.Smoothed), append(tied, r.Tied)
					raw, rawWidth, width = append(raw, r.Raw.PICP), append(rawWidth, r.Raw.MPIW), append(width, r.CQR.Width())
				}
				alpha := 2 * intervals.LevelsOf(coverage)[0]
				summarised.expected = hypothesis.ExpectedCoverage(summarised.nCal, alpha)
				summarised.stderr = intervals.CoverageError(summarised.nCal, summarised.nTest, alpha) / math.Sqrt(float64(s.Seeds))
				summarised.mean, summarised.empiricalStdErr = stat.MeanStdDev(covered, nil)
				summarised.empiricalStdErr /= math.Sqrt(float64(s.Seeds))
				summarised.smoothed, summarised.tied = stat.Mean(smoothed, nil), stat.Mean(tied, nil)
				summarised.raw, summarised.rawWidth, summarised.width = stat.Mean(raw, nil), stat.Mean(rawWidth, nil), stat.Mean(width, nil)
				summaries = append(summaries, summarised)
			}
		}
	}
	return summaries
}

func printTable(w io.Writer, summaries []summary) {
	fmt.Fprintln(w, "coverage of plain (closed) and of smoothed intervals on test rows; std.err. as theory has it, and of plain ones as splits differ")
	fmt.Fprintln(w, "ties: fraction of test rows that score exactly the margin; raw: coverage before calibration; widths over the target's range")
	fmt.Fprintf(w, "%-9s %-21s %5s %5s %5s %9s %8s %8s  %8s %6s  %8s %6s  %5s  %7s %7s %7s\n", "set", "method", "level", "n_cal", "seeds",
		"guarantee", "std.err.", "seen", "plain", "z", "smoothed", "z", "ties", "raw", "width", "CQR")
	plain, smoothed := 0, 0
	for _, r := range summaries {
		fmt.Fprintf(w, "%-9s %-21s %5g %5d %5d %9.4f %8.4f %8.4f  %8.4f %+6.2f  %8.4f %+6.2f  %5s  %7.3f %7s %7s\n", r.set, r.method, r.coverage, r.nCal, r.seeds,
			r.expected, r.stderr, r.empiricalStdErr, r.mean, r.z(), r.smoothed, r.zSmoothed(), experiment.Short(r.tied, 3), r.raw, experiment.Short(r.rawWidth, 3), experiment.Short(r.width, 3))
		plain += int(experiment.Indicator(math.Abs(r.z()) <= 3))
		smoothed += int(experiment.Indicator(math.Abs(r.zSmoothed()) <= 3))
	}
	fmt.Fprintf(w, "within 3 standard errors of the guarantee: plain %d of %d, smoothed %d of %d\n", plain, len(summaries), smoothed, len(summaries))
}

func csvLines(summaries []summary) [][]string {
	lines := [][]string{{
		"coverage", "set", "method", "n_cal", "n_test", "seeds", "guaranteed", "covered", "stderr", "stderr_seen", "z",
		"tied", "covered_smoothed", "z_smoothed", "raw_covered", "raw_mpiw", "cqr_mpiw",
	}}
	for _, r := range summaries {
		lines = append(lines, experiment.Cells(6, r.coverage, r.set, r.method, r.nCal, r.nTest, r.seeds, r.expected, r.mean, r.stderr, r.empiricalStdErr, r.z(),
			r.tied, r.smoothed, r.zSmoothed(), r.raw, r.rawWidth, r.width))
	}
	return lines
}
