package intervals

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/worstslab"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/uci"
)

// Scores is the scores command.
var Scores = experiment.Experiment{
	Name:    "scores",
	Doc:     "width and coverage of intervals by what calibrates them, on the UCI regression sets",
	Shared:  []string{"data", "sets", "methods", "seeds", "epochs", "parallel", "out", "ort-lib"},
	Resumes: true,
	New: func(flags *flag.FlagSet, s *experiment.Settings) func(ctx context.Context) error {
		plan := Define(flags, s)
		experiment.Redefine(flags, "coverage", ".9", "coverages of intervals, `.95,.9,.99`")
		return func(ctx context.Context) error {
			if s.MethodNames == nil {
				s.MethodNames = []string{"sqr"}
			}
			p, err := plan()
			if err != nil {
				return err
			}
			return measureScores(ctx, s, p)
		}
	},
}

// splitResult holds the intervals' measurements on one split, by nonconformity score.
type splitResult struct {
	Case
	// Skew is the mean over rows of |q₀+q₂−2·q₁|/(q₂−q₀) for the quantiles q₀, q₁ and q₂. It
	// is 0 if each median q₁ lies in the middle of its interval, and at most 1.
	Skew   float64    `json:"skew"`
	Scores []Measured `json:"scores"`
	Slabs  []float64  `json:"slabs"` // coverage of the worst slab
}

// scoreNames returns the scores to compare. The score ridge is for few calibration rows.
func scoreNames() []string {
	return slices.DeleteFunc(conformal.IntervalScores(), func(s string) bool { return s == conformal.Ridge })
}

func measureScores(ctx context.Context, s *experiment.Settings, p Plan) error {
	results, err := experiment.OpenStore[Case, splitResult](filepath.Join(s.Out, "scores.jsonl"))
	if err != nil {
		return err
	}
	defer results.Close()
	cases, err := RunDefaults(ctx, s, p, results, measureSplit)
	if err != nil {
		return err
	}
	printScores(s.Stdout, cases, s.Seeds, results.Records)
	return nil
}

// measureSplit fits on two fifths of the rows, calibrates on one fifth and measures on the
// other two. The large test part leaves enough rows in the slabs of small sets.
func measureSplit(ctx context.Context, s *experiment.Settings, m ood.Method, data uci.Data, k Case, progress func(float64)) (splitResult, error) {
	order := rand.New(rand.NewPCG(uint64(k.Seed), 5)).Perm(data.X.Rows)
	n := len(order) / 5
	fit, cal, test := data.Select(order[3*n:]), data.Select(order[:n]), data.Select(order[n:3*n])
	params := ood.Params{}
	if m.Needs.Trainer {
		params["epochs"] = s.Epochs
	}
	b, err := attach.Fit(ctx, attach.FitOptions{
		Base:  attach.Base{Task: attach.Regression},
		Batch: ood.Batch{Features: fit.X}, Targets: fit.Y,
		Cal: ood.Batch{Features: cal.X}, CalTargets: cal.Y,
		IntervalModel: m, IntervalParams: params, SkipDetector: true, Trainer: s.Trainer, Level: k.Coverage, Seed: uint64(k.Seed),
		Progress: func(_ string, fraction float64) { progress(fraction) },
	})
	if err != nil {
		return splitResult{}, err
	}
	y := test.Targets()
	r := splitResult{Case: k}
	var covered [][]bool
	alpha := 2 * LevelsOf(k.Coverage)[0]
	for _, score := range scoreNames() {
		o := attach.PredictOptions{IntervalScore: score, Levels: []float64{alpha / 2, .5, 1 - alpha/2}}
		predictor, err := b.Predictor(o)
		if err != nil {
			return r, err
		}
		predictions, err := predictor.Predict(ctx, attach.Rows{Batch: ood.Batch{Features: test.X}})
		if err != nil {
			return r, err
		}
		e, skew, inInterval := Ends{Y: y}, 0., []bool(nil)
		for i, row := range predictions {
			t := row.Targets[0]
			e.Lower, e.Upper = append(e.Lower, t.Lower), append(e.Upper, t.Upper)
			inInterval = append(inInterval, t.Lower <= y[i] && y[i] <= t.Upper)
			if q := t.Quantiles; q[2] > q[0] {
				skew += math.Abs(q[2]+q[0]-2*q[1]) / (q[2] - q[0])
			}
		}
		measurement := e.Measure(alpha, data.Spread)
		measurement.PICP = e.Closed()
		if math.IsInf(measurement.MPIW, 1) {
			measurement = Measured{PICP: measurement.PICP, Unbounded: true}
		}
		r.Scores, r.Skew, covered = append(r.Scores, measurement), skew/float64(len(predictions)), append(covered, inInterval)
	}
	for _, worst := range worstslab.Worst(ctx, test.X, covered, uint64(k.Seed)) {
		r.Slabs = append(r.Slabs, float64(worst.Covered)/float64(max(worst.Rows, 1)))
	}
	return r, ctx.Err()
}

// printScores prints one line for each case, ordered by coverage, by method and by falling
// skew.
func printScores(w io.Writer, cases []Case, seeds int, records map[Case]splitResult) {
	splitResults := func(k Case) []splitResult {
		var all []splitResult
		for k.Seed = range seeds {
			all = append(all, records[k])
		}
		return all
	}
	mean := func(k Case, value func(splitResult) float64) float64 {
		return stat.Mean(experiment.Values(splitResults(k), value), nil)
	}
	skew := func(k Case) float64 { return mean(k, func(r splitResult) float64 { return r.Skew }) }
	slices.SortFunc(cases, func(a, b Case) int {
		return cmp.Or(cmp.Compare(a.Coverage, b.Coverage), cmp.Compare(a.Method, b.Method), cmp.Compare(skew(b), skew(a)))
	})
	fmt.Fprintf(w, "coverage, width over the target's range and coverage of the worst slab, mean over %d splits; skew: how far medians are off the middle\n", seeds)
	fmt.Fprintf(w, "%-9s %-21s %5s %5s", "set", "method", "level", "skew")
	for _, name := range scoreNames() {
		fmt.Fprintf(w, "  %-18s", name)
	}
	fmt.Fprintln(w)
	for _, k := range cases {
		fmt.Fprintf(w, "%-9s %-21s %5g %5.2f", k.Set, k.Method, k.Coverage, skew(k))
		for i := range scoreNames() {
			width := mean(k, func(r splitResult) float64 { return r.Scores[i].Width() })
			fmt.Fprintf(w, "  %.3f %6s %.3f", mean(k, func(r splitResult) float64 { return r.Scores[i].PICP }), experiment.Short(width, 4), mean(k, func(r splitResult) float64 { return r.Slabs[i] }))
		}
		fmt.Fprintln(w)
	}
}
