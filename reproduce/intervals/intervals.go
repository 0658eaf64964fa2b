// Package intervals measures the coverage and width of prediction intervals on the UCI
// regression sets, with and without conformal calibration.
package intervals

import (
	"context"
	"flag"
	"fmt"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/uci"
)

// Plan lists the data sets, methods and coverages to measure.
type Plan struct {
	Sets      []uci.Set
	Methods   []ood.Method
	Coverages []float64
}

// Define defines the flag --coverage. The returned function checks --coverage, --sets and
// --methods, and must run after flag parsing.
func Define(flags *flag.FlagSet, s *experiment.Settings) func() (Plan, error) {
	coverages := flags.String("coverage", ".95", "coverages of intervals, `.95,.9,.99`")
	return func() (p Plan, err error) {
		if p.Sets, err = uci.ByName(s.Sets); err != nil {
			return p, err
		}
		if p.Coverages, err = experiment.Numbers("--coverage", *coverages); err != nil {
			return p, err
		}
		for _, c := range p.Coverages {
			if !(c > 0 && c < 1) {
				return p, experiment.Usagef("a coverage lies between 0 and 1, not %v", c)
			}
		}
		if err := experiment.Distinct("--coverage", p.Coverages); err != nil {
			return p, err
		}
		p.Methods, err = experiment.Choose("--methods", "method", s.MethodNames, methods(), func(m ood.Method) string { return m.Name })
		return p, err
	}
}

func methods() []ood.Method {
	return slices.DeleteFunc(attach.Methods(), func(m ood.Method) bool { return !m.Needs.Targets })
}

// Case identifies one measurement and is the key of its result.
type Case struct {
	Set      string  `json:"set"`
	Seed     int     `json:"seed"`
	Method   string  `json:"method"`
	Config   string  `json:"config"`   // text of ood.Params
	Coverage float64 `json:"coverage"` // level of the intervals, for example 0.95
	Epochs   int     `json:"epochs"`   // number of training epochs of networks; 0 for trees
	Keep     string  `json:"keep"`     // epoch whose weights a network keeps, best or last; empty for trees and for defaults
}

func (k Case) Key() Case { return k }

// CaseOf returns the case of a method with the given configuration on one split of a set.
func CaseOf(set string, seed int, method string, config ood.Params, coverage float64) Case {
	return Case{Set: set, Seed: seed, Method: method, Config: config.String(), Coverage: coverage}
}

// CaseOfDefault returns the case of a method with its defaults on one split of a set.
func CaseOfDefault(set string, seed int, m ood.Method, coverage float64, epochs int) Case {
	k := CaseOf(set, seed, m.Name, fitting.Default(m), coverage)
	if m.Needs.Trainer {
		k.Epochs = epochs
	}
	return k
}

// RunDefaults measures all methods with their defaults, except cases that results already
// holds. It returns the cases of the first seed.
func RunDefaults[R experiment.Keyed[Case]](ctx context.Context, s *experiment.Settings, p Plan, results *experiment.Store[Case, R],
	measure func(ctx context.Context, s *experiment.Settings, m ood.Method, data uci.Data, k Case, progress func(float64)) (R, error),
) (cases []Case, err error) {
	var jobs []experiment.Job
	for _, coverage := range p.Coverages {
		for _, m := range p.Methods {
			for _, set := range p.Sets {
				data, err := set.Read(ctx, s.Data)
				if err != nil {
					return nil, err
				}
				for seed := range s.Seeds {
					k := CaseOfDefault(set.Name, seed, m, coverage, s.Epochs)
					if seed == 0 {
						cases = append(cases, k)
					}
					if results.Has(k) {
						continue
					}
					jobs = append(jobs, experiment.Job{
						Kind: m.Name, Cost: float64(data.X.Rows), Seed: seed,
						What: fmt.Sprintf("%s, seed %d, %s, %g %%", set.Name, seed, m.Name, 100*coverage),
						Run: results.Keep(func(ctx context.Context, progress func(float64)) ([]R, error) {
							r, err := measure(ctx, s, m, data, k, progress)
							return []R{r}, err
						}),
					})
				}
			}
		}
	}
	return cases, experiment.RunJobs(ctx, s, jobs)
}

// Measured holds the coverage (PICP) and the mean width (MPIW) of intervals. The width is
// divided by the range of the target over the whole set.
type Measured struct {
	PICP  float64 `json:"picp"`
	MPIW  float64 `json:"mpiw"`
	Score float64 `json:"score"` // Winkler score, divided like the width
	// Unbounded reports whether the intervals are infinite because there are too few
	// calibration rows. MPIW and Score are then 0 because JSON has no infinity.
	Unbounded bool `json:"unbounded,omitempty"`
}

// Width returns the mean width, or infinity if the intervals are unbounded.
func (m Measured) Width() float64 {
	if m.Unbounded {
		return math.Inf(1)
	}
	return m.MPIW
}

// LevelsOf returns the quantile levels of both ends of a central interval.
func LevelsOf(coverage float64) []float64 {
	low := math.Round((1-coverage)/2*1e9) / 1e9
	return []float64{low, 1 - low}
}

// Ends holds the bounds of intervals and the observed targets.
type Ends struct{ Lower, Upper, Y []float64 }

// EndsOf returns the intervals between the first and the last level of q.
func EndsOf(q ood.Quantiles, y []float64) Ends {
	return Ends{experiment.Level(q, 0), experiment.Level(q, len(q.Levels)-1), y}
}

// Predicted returns the intervals that f predicts between two levels.
func Predicted(f ood.QuantileRegressor, rows uci.Data, levels []float64) Ends {
	return EndsOf(f.Quantiles(rows.X, levels), rows.Targets())
}

// Measure returns the coverage, the width and the Winkler score of intervals at level
// 1−alpha. It divides width and score by spread.
func (e Ends) Measure(alpha, spread float64) Measured {
	return Measured{
		PICP: experiment.PICP(e.Lower, e.Upper, e.Y), MPIW: experiment.MPIW(e.Lower, e.Upper) / spread,
		Score: experiment.IntervalScore(e.Lower, e.Upper, e.Y, alpha) / spread,
	}
}

// Closed returns the fraction of targets in their closed intervals.
func (e Ends) Closed() float64 {
	inside := 0.
	for i, v := range e.Y {
		inside += experiment.Indicator(e.Lower[i] <= v && v <= e.Upper[i])
	}
	return inside / float64(len(e.Y))
}

// With returns the intervals of e, followed by those of o.
func (e Ends) With(o Ends) Ends {
	return Ends{slices.Concat(e.Lower, o.Lower), slices.Concat(e.Upper, o.Upper), slices.Concat(e.Y, o.Y)}
}

// Calibrated conformalizes the intervals with the intervals and targets of cal. The bounds
// are rounded to float32.
func (e Ends) Calibrated(cal Ends, o calibrate.IntervalOptions, alpha float64) (Ends, error) {
	q := calibrate.QuantileCalibration{Levels: []float64{alpha / 2, 1 - alpha/2}}
	for i, y := range cal.Y {
		q.Grid, q.Y = append(q.Grid, float32(cal.Lower[i]), float32(cal.Upper[i])), append(q.Y, float32(y))
	}
	v, err := calibrate.NewIntervals([]calibrate.QuantileCalibration{q}, o, alpha)
	if err != nil {
		return Ends{}, err
	}
	out := Ends{make([]float64, len(e.Y)), make([]float64, len(e.Y)), e.Y}
	for i := range e.Y {
		v.Predict(out.Lower[i:i+1], out.Upper[i:i+1], [][]float32{{float32(e.Lower[i]), float32(e.Upper[i])}}, uint64(i))
	}
	return out, nil
}

// Conformalized measures the intervals after conformal calibration on cal. A target equal
// to a bound counts as covered, because the guarantee does not hold for open intervals if
// values are tied.
func (e Ends) Conformalized(cal Ends, alpha, spread float64) (Measured, error) {
	out, err := e.Calibrated(cal, calibrate.IntervalOptions{}, alpha)
	if err != nil {
		return Measured{}, err
	}
	m := out.Measure(alpha, spread)
	m.PICP = out.Closed()
	if math.IsInf(m.MPIW, 1) {
		m = Measured{PICP: m.PICP, Unbounded: true}
	}
	return m, nil
}

// Smoothed returns the coverage of smoothed intervals that are calibrated on cal. It also
// returns the fraction of targets equal to a bound of the unsmoothed interval, because a
// random draw decides whether they are covered.
func (e Ends) Smoothed(cal Ends, alpha float64, seed uint64) (covered, tied float64, err error) {
	plain, err := e.Calibrated(cal, calibrate.IntervalOptions{}, alpha)
	if err != nil {
		return 0, 0, err
	}
	smoothed, err := e.Calibrated(cal, calibrate.IntervalOptions{Smoothed: true, Seed: seed}, alpha)
	if err != nil {
		return 0, 0, err
	}
	for i, y := range e.Y {
		tied += experiment.Indicator(y == plain.Lower[i] || y == plain.Upper[i]) / float64(len(e.Y))
	}
	return smoothed.Closed(), tied, nil
}

// CoverageError returns the standard deviation of the fraction of nTest rows that intervals
// cover after calibration on nCal rows without ties. All orders of the rows are equally
// likely. The number of covered rows is therefore beta-binomial with parameters k and
// nCal+1−k, where k is the rank of the calibrating score. The beta part is the coverage for
// a given calibration set, and the binomial part is the draw of the test rows.
//
// This result is conditional on the rows of the data set, because only their order is
// random. If a set is split independently s times, the mean coverage has this error divided
// by √s, although the splits share rows. Smoothed intervals break each tie by an
// independent draw and have at most this error.
//
// Reference: Vovk (2012), Conditional Validity of Inductive Conformal
// Predictors, proposition 2a.
func CoverageError(nCal, nTest int, alpha float64) float64 {
	p := hypothesis.ExpectedCoverage(nCal, alpha)
	n, m := float64(nCal), float64(nTest)
	return math.Sqrt(p * (1 - p) * (n + 1 + m) / (m * (n + 2)))
}
