// Package intervals measures intervals of the UCI regression sets, as they are
// and conformalized.
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

// Plan is what is measured.
type Plan struct {
	Sets      []uci.Set
	Methods   []ood.Method
	Coverages []float64
}

// Define defines --coverage, and returns what checks it, --sets and --methods
// once they are parsed.
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

// Case is what a line of results was measured with.
type Case struct {
	Set      string  `json:"set"`
	Seed     int     `json:"seed"`
	Method   string  `json:"method"`
	Config   string  `json:"config"`   // as ood.Params writes it
	Coverage float64 `json:"coverage"` // of the intervals, .95
	Epochs   int     `json:"epochs"`   // of networks, 0 for trees
	Keep     string  `json:"keep"`     // which epoch's weights: best or last, empty for trees
}

func (k Case) Key() Case { return k }

// CaseOf is a method with a setting on one split of a set.
func CaseOf(set string, seed int, method string, config ood.Params, coverage float64) Case {
	return Case{Set: set, Seed: seed, Method: method, Config: config.String(), Coverage: coverage}
}

// CaseOfDefault is a method with its defaults on one split of a set.
func CaseOfDefault(set string, seed int, m ood.Method, coverage float64, epochs int) Case {
	k := CaseOf(set, seed, m.Name, fitting.Default(m), coverage)
	if m.Needs.Trainer {
		k.Epochs = epochs
	}
	return k
}

// RunDefaults measures what results lack of every method with its defaults, and
// returns the cases of the first seed.
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

// Measured is coverage and width of intervals, the width divided by the range
// of the target over the whole set.
type Measured struct {
	PICP  float64 `json:"picp"`
	MPIW  float64 `json:"mpiw"`
	Score float64 `json:"score"` // Winkler's, divided like the width
	// Unbounded intervals are those that too few rows calibrate. Width and
	// score are then 0 instead of +Inf, which JSON lacks.
	Unbounded bool `json:"unbounded,omitempty"`
}

// Width is that of all intervals, or infinite.
func (m Measured) Width() float64 {
	if m.Unbounded {
		return math.Inf(1)
	}
	return m.MPIW
}

// LevelsOf are the two ends of central intervals.
func LevelsOf(coverage float64) []float64 {
	low := math.Round((1-coverage)/2*1e9) / 1e9
	return []float64{low, 1 - low}
}

// Ends are intervals of some rows, and what came true.
type Ends struct{ Lower, Upper, Y []float64 }

// EndsOf are the intervals between the first and the last level.
func EndsOf(q ood.Quantiles, y []float64) Ends {
	return Ends{experiment.Level(q, 0), experiment.Level(q, len(q.Levels)-1), y}
}

// Predicted are the intervals of rows between two levels.
func Predicted(f ood.QuantileRegressor, rows uci.Data, levels []float64) Ends {
	return EndsOf(f.Quantiles(rows.X, levels), rows.Targets())
}

// Measure measures them at a level of 1−alpha.
func (e Ends) Measure(alpha, spread float64) Measured {
	return Measured{
		PICP: experiment.PICP(e.Lower, e.Upper, e.Y), MPIW: experiment.MPIW(e.Lower, e.Upper) / spread,
		Score: experiment.IntervalScore(e.Lower, e.Upper, e.Y, alpha) / spread,
	}
}

// Closed is the share of targets in their intervals, ends included.
func (e Ends) Closed() float64 {
	inside := 0.
	for i, v := range e.Y {
		inside += experiment.Indicator(e.Lower[i] <= v && v <= e.Upper[i])
	}
	return inside / float64(len(e.Y))
}

// With are those of other rows too.
func (e Ends) With(o Ends) Ends {
	return Ends{slices.Concat(e.Lower, o.Lower), slices.Concat(e.Upper, o.Upper), slices.Concat(e.Y, o.Y)}
}

// Calibrated are the intervals after calibration on those of other rows, with ends
// that are float32 numbers.
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

// Conformalized measures them after calibration on those of other rows. They are
// closed: with ties, open ones would break the promise.
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

// Smoothed is the share of targets that smoothed intervals cover after
// calibration on those of other rows, and the share of those at which a draw
// decides: at an end of the interval that is not smoothed.
func (e Ends) Smoothed(cal Ends, alpha float64, seed uint64) (covered, tied float64, err error) {
	plain, err := e.Calibrated(cal, calibrate.IntervalOptions{}, alpha)
	if err != nil {
		return 0, 0, err
	}
	drawn, err := e.Calibrated(cal, calibrate.IntervalOptions{Smoothed: true, Seed: seed}, alpha)
	if err != nil {
		return 0, 0, err
	}
	for i, y := range e.Y {
		tied += experiment.Indicator(y == plain.Lower[i] || y == plain.Upper[i]) / float64(len(e.Y))
	}
	return drawn.Closed(), tied, nil
}

// CoverageError is the standard deviation of the share of nTest rows that
// intervals cover after calibration on nCal rows, without ties. All orders of
// the rows being alike, the number covered is beta-binomial with the
// parameters k and nCal+1−k, where k is the rank of the score that calibrates:
// the Beta is the coverage of this calibration set, the binomial the draw of
// test rows.
//
// That holds given the rows of the data set, the order alone being random. So
// the mean over independent splits of one set, which share its rows, has this
// error over √splits. Smoothed intervals, which break each tie by a draw of its
// own, have at most this error.
//
// Reference: Vovk (2012), Conditional Validity of Inductive Conformal
// Predictors, proposition 2a.
func CoverageError(nCal, nTest int, alpha float64) float64 {
	p := hypothesis.ExpectedCoverage(nCal, alpha)
	n, m := float64(nCal), float64(nTest)
	return math.Sqrt(p * (1 - p) * (n + 1 + m) / (m * (n + 2)))
}
