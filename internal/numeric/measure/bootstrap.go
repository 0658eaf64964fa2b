package measure

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
)

// confidenceLevel is the level of all confidence intervals.
const confidenceLevel = .95

// inIndex is the index of the in-distribution rows among the random streams. OOD set k has the
// index k+1.
const inIndex = 0

// newStream returns the random stream that draws the in-distribution rows or the rows of an
// OOD set. The stream depends on neither the method nor the other rows.
func newStream(seed uint64, index int) *rand.PCG {
	return rand.NewPCG(seed, 0x9e3779b97f4a7c15*uint64(index+1))
}

// draw draws a bootstrap sample: as many rows as there are, with replacement. groups[i] is the
// group of row i. draw sets counts to the number of drawn rows in each group.
func draw(r *rand.PCG, groups []int32, counts []int32) {
	clear(counts)
	n := uint64(len(groups))
	for i := 0; i < len(groups); i += 2 {
		// One 64-bit random number picks two rows.
		u := r.Uint64()
		counts[groups[(u>>32)*n>>32]]++
		if i+1 < len(groups) {
			counts[groups[(u&math.MaxUint32)*n>>32]]++
		}
	}
}

// checkEvery is the number of resamples between two checks of the context.
const checkEvery = 64

// Bootstrap returns all metrics of each resample. IntervalsOf computes percentile intervals
// from them (Efron & Tibshirani, 1993, chapter 13). A resample draws in-distribution rows and
// OOD rows with replacement, as many of each as there are. set is the index of the OOD rows
// among all OOD sets. Draws depend only on seed and set, so two methods that are scored on the
// same rows are measured on the same resamples. The intervals account for the choice of the
// test rows, but not for the choice of the fit rows. resamples must be positive.
func Bootstrap(ctx context.Context, in, out []float64, resamples int, seed uint64, set int) ([]Metrics, error) {
	c, err := newCurve(in, out)
	if err != nil {
		return nil, err
	}
	groupsIn, groupsOut := c.indices(in), c.indices(out)
	streamIn, streamOut := newStream(seed, inIndex), newStream(seed, set+1)
	resample := curve{in: make([]int32, len(c.in)), out: make([]int32, len(c.out)), nIn: c.nIn, nOut: c.nOut}
	drawn := make([]Metrics, resamples)
	for i := range drawn {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		draw(streamIn, groupsIn, resample.in)
		draw(streamOut, groupsOut, resample.out)
		drawn[i] = resample.metrics()
	}
	return drawn, nil
}

// indices returns the index of the threshold that equals each score.
func (c curve) indices(scores []float64) []int32 {
	indices := make([]int32, len(scores))
	for i, s := range scores {
		k, _ := slices.BinarySearchFunc(c.thresholds, s, func(a, b float64) int { return cmp.Compare(b, a) })
		indices[i] = int32(k)
	}
	return indices
}

// BootstrapAURC returns the AURC of each resample. It draws the same in-distribution rows as
// Bootstrap.
func BootstrapAURC(ctx context.Context, scores []float64, wrong []bool, resamples int, seed uint64) ([]float64, error) {
	r, err := newRisks(scores, wrong)
	if err != nil {
		return nil, err
	}
	// There are two groups for each distinct score: group k has the correct predictions
	// with score k, and group distinct+k has the wrong ones.
	distinct := len(r.thresholds)
	groups := make([]int32, len(scores))
	for i, s := range scores {
		k, _ := slices.BinarySearch(r.thresholds, s)
		if wrong[i] {
			k += distinct
		}
		groups[i] = int32(k)
	}
	stream := newStream(seed, inIndex)
	counts := make([]int32, 2*distinct)
	resample := risks{right: counts[:distinct], wrong: counts[distinct:]}
	drawn := make([]float64, resamples)
	for i := range drawn {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		draw(stream, groups, counts)
		drawn[i] = resample.area()
	}
	return drawn, nil
}

// IntervalsOf returns a struct T, such as compare.Intervals, whose fields are the intervals of
// the metrics in the order of Metrics. drawn comes from Bootstrap and must not be empty.
func IntervalsOf[T any](drawn []Metrics) (v T) {
	values := make([][]float64, len(Figures[float64](&Metrics{})))
	for i := range drawn {
		for f, x := range Figures[float64](&drawn[i]) {
			values[f] = append(values[f], *x)
		}
	}
	for f, ends := range Figures[[2]float64](&v) {
		*ends = Interval(values[f])
	}
	return v
}

// Interval returns the ends of the central confidence interval of the values x, at
// confidenceLevel. It reorders x.
func Interval(x []float64) [2]float64 {
	return [2]float64{quantile.Percentile(x, 50*(1-confidenceLevel)), quantile.Percentile(x, 50*(1+confidenceLevel))}
}
