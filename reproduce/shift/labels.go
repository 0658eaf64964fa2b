package shift

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// hardest is how many times as frequent the class with the lowest accuracy is among new rows as
// the class with the highest accuracy.
const hardest = 20

// labelResult holds sums over draws of the measurements for one number of calibration rows.
type labelResult struct {
	fits, refused, rejected                 int
	size                                    float64 // effective sample size
	unweighted, covariate, estimated, known float64 // coverage
	classesUnweighted, classesEstimated     float64 // mean number of classes in a set
	distance                                float64 // half the total difference of estimated and true shares
	within                                  float64 // fraction of 95 % intervals of shares that hold the share
}

// runLabels measures sets of classes after a shift of the shares of classes, from logits and labels
// in files.
func runLabels(ctx context.Context, s *experiment.Settings, files string) error {
	lines := [][]string{{"file", "n_cal", "draws", "refused", "effective", "unweighted", "covariate", "estimated", "known", "classes_unweighted", "classes_estimated", "share_distance", "intervals", "rejected"}}
	for _, path := range strings.Split(files, ",") {
		b, err := inputs.OpenFeatures(path)
		if err != nil {
			return err
		}
		if b.Labels == nil || b.Logits.Rows < 4000 {
			return fmt.Errorf("%s: the file needs at least 4,000 rows with logits and labels", path)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".npz")
		fmt.Fprintf(s.Stdout, "%s: coverage at level %g of %d new rows, of which the class with the lowest accuracy has the largest share; %d draws\n", name, 1-alpha, tests, s.Seeds)
		fmt.Fprintln(s.Stdout, "n_cal  refused  effective  unweighted  covariate  estimated  known  classes: unweighted  estimated  shares: distance  intervals  rejected")
		for _, n := range []int{200, 500, 1000, 2000} {
			var r labelResult
			for seed := range s.Seeds {
				if err := r.add(ctx, b, n, uint64(seed)); err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
			}
			f := float64(r.fits)
			fmt.Fprintf(s.Stdout, "%5d  %7d  %9.0f  %10.3f  %9.3f  %9.3f  %5.3f  %19.3f  %9.3f  %16.3f  %9.3f  %8.3f\n", n, r.refused, r.size/f, r.unweighted/f, r.covariate/f, r.estimated/f, r.known/f,
				r.classesUnweighted/f, r.classesEstimated/f, r.distance/f, r.within/f, float64(r.rejected)/f)
			lines = append(lines, experiment.Cells(6, name, n, s.Seeds, r.refused, r.size/f, r.unweighted/f, r.covariate/f, r.estimated/f, r.known/f,
				r.classesUnweighted/f, r.classesEstimated/f, r.distance/f, r.within/f, float64(r.rejected)/f))
		}
	}
	return experiment.WriteCSV(filepath.Join(s.Out, "shift-labels.csv"), lines)
}

// shiftedShares returns the share of each class among new rows. The shares are a geometric
// series in the order of decreasing accuracy.
func shiftedShares(b ood.Batch) []float64 {
	k := b.Logits.Cols
	right, count, order := make([]float64, k), make([]float64, k), make([]int, k)
	for i, predicted := range rows.Argmax(b.Logits) {
		count[b.Labels[i]]++
		right[b.Labels[i]] += experiment.Indicator(predicted == b.Labels[i])
	}
	for c := range order {
		order[c] = c
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(right[y]/count[y], right[x]/count[x]) })
	shares, sum := make([]float64, k), 0.
	for rank, c := range order {
		shares[c] = math.Pow(hardest, float64(rank)/float64(k-1))
		sum += shares[c]
	}
	for c := range shares {
		shares[c] /= sum
	}
	return shares
}

// add measures one draw of n calibration rows and as many target rows. New rows and target rows
// come from the other rows of the file, with replacement.
func (r *labelResult) add(ctx context.Context, b ood.Batch, n int, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	shares, k := shiftedShares(b), b.Logits.Cols
	order := rng.Perm(b.Len())
	cal, ofClass := b.Select(order[:n]), make([][]int, k)
	for _, i := range order[n:] {
		ofClass[b.Labels[i]] = append(ofClass[b.Labels[i]], i)
	}
	draw := func(n int) ood.Batch {
		picked := make([]int, n)
		for i := range picked {
			u, class := rng.Float64(), 0
			for ; class < k-1 && u >= shares[class]; class++ {
				u -= shares[class]
			}
			picked[i] = ofClass[class][rng.IntN(len(ofClass[class]))]
		}
		return b.Select(picked)
	}
	target, fresh := draw(n), draw(tests)
	s, err := calibrate.NewLabelShift(ctx, cal, target)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.refused++
		return nil
	}
	plain, err := calibrate.NewClassCalibration(cal.Logits, cal.Labels)
	if err != nil {
		return err
	}
	known := make([]float64, k) // true shares among new rows, divided by those in the file
	for c := range known {
		known[c] = shares[c] * float64(b.Len()) / float64(len(ofClass[c])+count(cal.Labels, c))
	}
	ratio, covariate, ratioErr := calibrate.NewDensityRatio(ctx, cal.Features, target.Features)
	coverage := func(to, classes *float64, weights, byClass []float64) error {
		c := plain
		c.Weights = weights
		sets, err := c.Sets(calibrate.SetOptions{}, alpha)
		if err != nil {
			return err
		}
		if byClass != nil {
			sets = sets.WithClassWeights(byClass)
		}
		for i, label := range fresh.Labels {
			if weights != nil && byClass == nil {
				sets = sets.WithWeight(ratio.Weight(rows.Row(fresh.Features, i)))
			}
			set := sets.Predict(rows.Slice(fresh.Logits, i, i+1), 0)[0]
			*to += experiment.Indicator(slices.Contains(set, label)) / tests
			*classes += float64(len(set)) / tests
		}
		return nil
	}
	var unused float64
	err = errors.Join(coverage(&r.unweighted, &r.classesUnweighted, nil, nil),
		coverage(&r.estimated, &r.classesEstimated, rows.Pick(s.Weights, cal.Labels), s.Weights),
		coverage(&r.known, &unused, rows.Pick(known, cal.Labels), known))
	if ratioErr == nil {
		err = errors.Join(err, coverage(&r.covariate, &unused, covariate, nil))
	} else {
		r.covariate = math.NaN()
	}
	for c, q := range shares {
		r.distance += math.Abs(q-s.Shares[c]) / 2
		r.within += experiment.Indicator(math.Abs(q-s.Shares[c]) <= 1.96*s.Errors[c]) / float64(k)
	}
	r.fits, r.size, r.rejected = r.fits+1, r.size+calibrate.EffectiveSampleSize(rows.Pick(s.Weights, cal.Labels)), r.rejected+int(experiment.Indicator(s.PValue < .05))
	return err
}

func count(labels []int, class int) (n int) {
	for _, label := range labels {
		if label == class {
			n++
		}
	}
	return n
}
