// Package shift measures the coverage of weighted intervals under covariate shift, and of
// weighted prediction sets under label shift, with true and with estimated weights.
package shift

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// Experiment is the shift command.
var Experiment = experiment.Experiment{
	Name:   "shift",
	Doc:    "coverage under covariate shift, or label shift with --x: without weights, with estimated weights and with true weights",
	Shared: []string{"seeds", "out"},
	New: func(flags *flag.FlagSet, s *experiment.Settings) func(ctx context.Context) error {
		x := flags.String("x", "", "files of features, logits and labels that no network was trained on, as `attach features` writes them, `a.npz,b.npz`: shift the shares of their classes")
		return func(ctx context.Context) error {
			if *x != "" {
				return runLabels(ctx, s, *x)
			}
			return run(ctx, s)
		}
	},
}

const (
	alpha    = .1
	features = 5
	tests    = 1000 // number of new rows for each calibration set
)

// result holds sums over seeds of the measurements for one number of calibration rows and one
// shift.
type result struct {
	fits, refused, violated          int
	size                             float64 // effective sample size
	unweighted, estimated, known     float64 // coverage
	infiniteEstimated, infiniteKnown float64 // fraction of intervals that are infinite
}

func run(ctx context.Context, s *experiment.Settings) error {
	fmt.Fprintf(s.Stdout, "coverage at level %g of %d new rows for each of %d calibration sets; shift: mean of the first of %d normal features\n", 1-alpha, tests, s.Seeds, features)
	fmt.Fprintln(s.Stdout, "n_cal  shift  refused  effective  unweighted  estimated  known  infinite: estimated  known  violated")
	lines := [][]string{{"n_cal", "shift", "seeds", "refused", "effective", "unweighted", "estimated", "known", "infinite_estimated", "infinite_known", "violated"}}
	for _, n := range []int{200, 500, 1000, 2000} {
		for _, tilt := range []float64{0, .5, 1} {
			var r result
			for seed := range s.Seeds {
				if err := r.add(ctx, n, tilt, uint64(seed)); err != nil {
					return err
				}
			}
			fits := float64(r.fits)
			fmt.Fprintf(s.Stdout, "%5d  %5g  %7d  %9.0f  %10.3f  %9.3f  %5.3f  %19.4f  %.4f  %8.3f\n", n, tilt, r.refused, r.size/fits,
				r.unweighted/fits, r.estimated/fits, r.known/fits, r.infiniteEstimated/fits, r.infiniteKnown/fits, float64(r.violated)/fits)
			lines = append(lines, experiment.Cells(6, n, tilt, s.Seeds, r.refused, r.size/fits, r.unweighted/fits, r.estimated/fits, r.known/fits,
				r.infiniteEstimated/fits, r.infiniteKnown/fits, float64(r.violated)/fits))
		}
	}
	return experiment.WriteCSV(filepath.Join(s.Out, "shift.csv"), lines)
}

// add measures one calibration set of n rows, with as many target rows. The error of a
// prediction is normal, and its deviation exp(x/2) grows with the first feature x. This
// feature has mean 0 in calibration and mean tilt in new rows, so the density ratio is
// proportional to exp(tilt·x).
func (r *result) add(ctx context.Context, n int, tilt float64, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	draw := func(n int, mean float64) (x blas32.General, scores, weights []float64) {
		x = rows.New(n, features)
		for i := range x.Data {
			x.Data[i] = float32(rng.NormFloat64())
		}
		for i := range n {
			row := rows.Row(x, i)
			row[0] += float32(mean)
			scores = append(scores, math.Abs(math.Exp(float64(row[0])/2)*rng.NormFloat64()))
			weights = append(weights, math.Exp(tilt*float64(row[0])))
		}
		return x, scores, weights
	}
	x, scores, weights := draw(n, 0)
	target, _, _ := draw(n, tilt)
	fresh, errorsOfNew, newWeights := draw(tests, tilt)
	ratio, estimates, err := calibrate.NewDensityRatio(ctx, x, target)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.refused++
		return nil
	}
	plain, plainErr := calibrate.NewConformal(scores)
	known, knownErr := calibrate.NewWeightedConformal(scores, weights)
	estimated, estimatedErr := calibrate.NewWeightedConformal(scores, estimates)
	if err := errors.Join(plainErr, knownErr, estimatedErr); err != nil {
		return err
	}
	misses := 0
	for i, e := range errorsOfNew {
		weight := ratio.Weight(rows.Row(fresh, i))
		r.unweighted += experiment.Indicator(plain.PValue(e) > alpha) / tests
		r.known += experiment.Indicator(known.PValue(e, newWeights[i]) > alpha) / tests
		r.infiniteKnown += experiment.Indicator(math.IsInf(known.Threshold(alpha, newWeights[i]), 1)) / tests
		r.infiniteEstimated += experiment.Indicator(math.IsInf(estimated.Threshold(alpha, weight), 1)) / tests
		if estimated.PValue(e, weight) <= alpha {
			misses++
		}
	}
	size := calibrate.EffectiveSampleSize(estimates)
	r.fits, r.size, r.estimated = r.fits+1, r.size+size, r.estimated+1-float64(misses)/tests
	m := hypothesis.Misses{Allowed: hypothesis.Allowed(int(size), alpha), Calibration: int(size)}
	r.violated += int(experiment.Indicator(m.AtLeast(misses, tests) < .01))
	return nil
}
