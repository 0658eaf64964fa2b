package main

import (
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/heads"
)

// coverageExperiment measures what conformalized quantile regression promises,
// whatever predicts the quantiles: over random splits, the mean coverage on
// test rows is ⌈(1−α)(n_cal+1)⌉/(n_cal+1), and at least that where scores tie;
// smoothed intervals promise it in any case. Every method has its default
// setting, so that no rows choose among settings and all of the fifth that is
// held out calibrates.
var coverageExperiment = experiment{
	name:  "coverage",
	doc:   "coverage of conformalized intervals of every method on the UCI regression sets",
	uses:  []string{"data", "sets", "seeds", "epochs", "ort-lib"},
	flags: coverageFlags,
	run:   runCoverage,
}

func coverageFlags(flags *flag.FlagSet, s *settings) {
	i := &s.intervals
	flags.StringVar(&i.methods, "methods", "", "only these methods, `a,b`")
	flags.StringVar(&i.out, "out", "coverage", "`folder` for results and table; results in it are not measured again")
	flags.StringVar(&i.coverages, "coverage", ".95", "coverages of intervals, `.95,.9,.99`")
	flags.IntVar(&i.parallel, "parallel", 1, "`jobs` at once")
}

// coverageRecord is what one method does on one split. Intervals are closed,
// but for smoothed ones.
type coverageRecord struct {
	configKey
	NCal     int      `json:"n_cal"`
	NTest    int      `json:"n_test"`
	Raw      measured `json:"raw"`
	CQR      measured `json:"cqr"`
	Smoothed float64  `json:"cqr_smoothed"` // coverage
	Tied     float64  `json:"tied"`         // share of test rows that score exactly the margin
}

func runCoverage(ctx context.Context, s settings) error {
	p, err := planCoverage(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.intervals.out, 0o755); err != nil {
		return err
	}
	results, err := openStore[configKey, coverageRecord](filepath.Join(s.intervals.out, "coverage.jsonl"))
	if err != nil {
		return err
	}
	defer results.close()
	var jobs []job
	var seedOf []int
	for _, set := range p.sets {
		data, err := set.read(ctx, s.data)
		if err != nil {
			return err
		}
		for seed := range s.seeds {
			for _, m := range p.methods {
				for _, coverage := range p.coverages {
					k := coverageKey(set, seed, m, coverage, s.epochs)
					if results.has(k) {
						continue
					}
					jobs = append(jobs, job{
						kind: m.Name, cost: float64(data.x.Rows), what: fmt.Sprintf("%s, seed %d, %s, %g %%", set.name, seed, m.Name, 100*coverage),
						run: func(ctx context.Context, progress func(float64)) error {
							r, err := coverOne(ctx, s, m, data, k, progress)
							if err != nil {
								return err
							}
							return results.add([]coverageRecord{r})
						},
					})
					seedOf = append(seedOf, seed)
				}
			}
		}
	}
	if err := runJobs(ctx, s, inOrderOf(seedOf, jobs)); err != nil {
		return err
	}
	rows := p.coverageRows(s, results)
	printCoverage(s.stdout, rows)
	return writeFile(filepath.Join(s.intervals.out, "coverage.csv"), func(w io.Writer) error { return writeCoverageCSV(w, rows) })
}

func planCoverage(s settings) (p intervalPlan, err error) {
	if p.sets, err = uciByName(s.sets); err != nil {
		return p, err
	}
	if p.coverages, err = coveragesOf(s); err != nil {
		return p, err
	}
	p.methods, err = quantileMethods(s.intervals.methods)
	return p, err
}

func coverageKey(set uciSet, seed int, m heads.QuantileMethod, coverage float64, epochs int) configKey {
	k := keyOf(set.name, seed, m.Name, m.Default, coverage)
	if m.NeedsTrainer {
		k.Epochs = epochs
	}
	return k
}

// coverOne fits a method with its defaults to one split, and calibrates it.
func coverOne(ctx context.Context, s settings, m heads.QuantileMethod, data uciData, k configKey, progress func(float64)) (coverageRecord, error) {
	parts := splitRows(data.x.Rows, uint64(k.Seed))
	levels := levelsOf(k.Coverage)
	alpha := 2 * levels[0]
	f, err := m.Fit(ctx, heads.Regression{
		X: pick(data.x, parts.fit), Y: pick(data.y, parts.fit), Trainer: s.trainer,
		Levels: levels, Epochs: s.epochs, Seed: uint64(k.Seed), Progress: progress,
	}, m.Default)
	if err != nil {
		return coverageRecord{}, err
	}
	cal := endsOf(f, pick(data.x, parts.cal), column(pick(data.y, parts.cal)), levels)
	test := endsOf(f, pick(data.x, parts.test), column(pick(data.y, parts.test)), levels)
	r := coverageRecord{configKey: k, NCal: len(cal.y), NTest: len(test.y), Raw: test.measure(alpha, data.spread)}
	r.Raw.PICP = test.closed()
	if r.CQR, err = test.conformalized(cal, alpha, data.spread); err != nil {
		return r, err
	}
	r.Smoothed, r.Tied, err = test.smoothed(cal, alpha, uint64(k.Seed))
	return r, err
}

// coverageRow is a method on a set, over splits.
type coverageRow struct {
	set, method                  string
	coverage                     float64
	seeds, nCal, nTest           int
	expected, mean, stderr, seen float64 // seen is the standard error by the splits themselves
	smoothed, tied               float64
	raw, rawWidth, width         float64
}

func (r coverageRow) z() float64         { return (r.mean - r.expected) / r.stderr }
func (r coverageRow) zSmoothed() float64 { return (r.smoothed - r.expected) / r.stderr }

func (p intervalPlan) coverageRows(s settings, results *store[configKey, coverageRecord]) []coverageRow {
	var rows []coverageRow
	for _, coverage := range p.coverages {
		for _, set := range p.sets {
			for _, m := range p.methods {
				row := coverageRow{set: set.name, method: m.Name, coverage: coverage, seeds: s.seeds}
				var covered, smoothed, tied, raw, rawWidth, width []float64
				for seed := range s.seeds {
					r := results.records[coverageKey(set, seed, m, coverage, s.epochs)]
					row.nCal, row.nTest = r.NCal, r.NTest
					covered, smoothed, tied = append(covered, r.CQR.PICP), append(smoothed, r.Smoothed), append(tied, r.Tied)
					raw, rawWidth, width = append(raw, r.Raw.PICP), append(rawWidth, r.Raw.MPIW), append(width, r.CQR.width())
				}
				alpha := 2 * levelsOf(coverage)[0]
				row.expected = calibrate.ExpectedCoverage(row.nCal, alpha)
				row.stderr = coverageError(row.nCal, row.nTest, alpha) / math.Sqrt(float64(s.seeds))
				row.mean, row.seen = stat.MeanStdDev(covered, nil)
				row.seen /= math.Sqrt(float64(s.seeds))
				row.smoothed, row.tied = stat.Mean(smoothed, nil), stat.Mean(tied, nil)
				row.raw, row.rawWidth, row.width = stat.Mean(raw, nil), stat.Mean(rawWidth, nil), stat.Mean(width, nil)
				rows = append(rows, row)
			}
		}
	}
	return rows
}

func printCoverage(w io.Writer, rows []coverageRow) {
	fmt.Fprintln(w, "coverage of plain (closed) and of smoothed intervals on test rows; std.err. as theory has it, and of plain ones as splits differ")
	fmt.Fprintln(w, "ties: share of test rows that score exactly the margin; raw: coverage before calibration; widths over the target's range")
	fmt.Fprintf(w, "%-9s %-21s %5s %5s %5s %8s %8s %8s  %8s %6s  %8s %6s  %5s  %7s %7s %7s\n", "set", "method", "level", "n_cal", "seeds",
		"promised", "std.err.", "seen", "plain", "z", "smoothed", "z", "ties", "raw", "width", "CQR")
	plain, smoothed := 0, 0
	for _, r := range rows {
		fmt.Fprintf(w, "%-9s %-21s %5g %5d %5d %8.4f %8.4f %8.4f  %8.4f %+6.2f  %8.4f %+6.2f  %5s  %7.3f %7s %7s\n", r.set, r.method, r.coverage, r.nCal, r.seeds,
			r.expected, r.stderr, r.seen, r.mean, r.z(), r.smoothed, r.zSmoothed(), short(r.tied, 3), r.raw, short(r.rawWidth, 3), short(r.width, 3))
		plain += int(indicator(math.Abs(r.z()) <= 3))
		smoothed += int(indicator(math.Abs(r.zSmoothed()) <= 3))
	}
	fmt.Fprintf(w, "within 3 standard errors of the promise: plain %d of %d, smoothed %d of %d\n", plain, len(rows), smoothed, len(rows))
}

func writeCoverageCSV(w io.Writer, rows []coverageRow) error {
	out := csv.NewWriter(w)
	out.Write([]string{
		"coverage", "set", "method", "n_cal", "n_test", "seeds", "promised", "covered", "stderr", "stderr_seen", "z",
		"tied", "covered_smoothed", "z_smoothed", "raw_covered", "raw_mpiw", "cqr_mpiw",
	})
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	for _, r := range rows {
		out.Write([]string{
			number(r.coverage), r.set, r.method, strconv.Itoa(r.nCal), strconv.Itoa(r.nTest), strconv.Itoa(r.seeds),
			number(r.expected), number(r.mean), number(r.stderr), number(r.seen), number(r.z()),
			number(r.tied), number(r.smoothed), number(r.zSmoothed()), number(r.raw), number(r.rawWidth), number(r.width),
		})
	}
	out.Flush()
	return out.Error()
}
