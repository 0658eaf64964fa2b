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

// inSide is the number of the in-domain side among the sides that are drawn;
// out-of-domain set k is side k+1.
const inSide = 0

// drawing is the stream that one side's rows are drawn from. It depends on
// neither the method nor the other sides.
func drawing(seed uint64, side int) *rand.PCG {
	return rand.NewPCG(seed, 0x9e3779b97f4a7c15*uint64(side+1))
}

// draw draws as many rows as there are with replacement, and counts them by
// the place that each row has.
func draw(r *rand.PCG, place []int32, counts []int32) {
	clear(counts)
	n := uint64(len(place))
	for i := 0; i < len(place); i += 2 {
		// One number of 64 bits picks two rows.
		u := r.Uint64()
		counts[place[(u>>32)*n>>32]]++
		if i+1 < len(place) {
			counts[place[(u&math.MaxUint32)*n>>32]]++
		}
	}
}

// checkEvery is how many resamples are drawn between two looks at the context.
const checkEvery = 64

// Bootstrap returns all metrics of the given number of resamples, from which
// IntervalsOf makes percentile intervals (Efron & Tibshirani, 1993, chapter
// 13). Each draws as many in-domain rows as there are from them, with
// replacement, and the same of the out-of-domain rows, which are set number
// set, from 0, of all sets. The seed and set alone settle which: two methods
// scored on the same rows are measured on the same resamples. Intervals hold
// for the drawing of rows to measure on, not for that of rows to fit with.
// resamples must be positive.
func Bootstrap(ctx context.Context, in, out []float64, resamples int, seed uint64, set int) ([]Metrics, error) {
	c, err := newCurve(in, out)
	if err != nil {
		return nil, err
	}
	placeIn, placeOut := c.places(in), c.places(out)
	drawIn, drawOut := drawing(seed, inSide), drawing(seed, set+1)
	again := curve{in: make([]int32, len(c.in)), out: make([]int32, len(c.out)), nIn: c.nIn, nOut: c.nOut}
	drawn := make([]Metrics, resamples)
	for i := range drawn {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		draw(drawIn, placeIn, again.in)
		draw(drawOut, placeOut, again.out)
		drawn[i] = again.metrics()
	}
	return drawn, nil
}

// places returns which threshold each score is.
func (c curve) places(scores []float64) []int32 {
	place := make([]int32, len(scores))
	for i, s := range scores {
		k, _ := slices.BinarySearchFunc(c.thresholds, s, func(a, b float64) int { return cmp.Compare(b, a) })
		place[i] = int32(k)
	}
	return place
}

// BootstrapAURC is Bootstrap for AURC; in-domain rows are drawn as there.
func BootstrapAURC(ctx context.Context, scores []float64, wrong []bool, resamples int, seed uint64) ([]float64, error) {
	r, err := newRisks(scores, wrong)
	if err != nil {
		return nil, err
	}
	// Right answers are counted in the first half, wrong ones in the second.
	distinct := len(r.thresholds)
	place := make([]int32, len(scores))
	for i, s := range scores {
		k, _ := slices.BinarySearch(r.thresholds, s)
		if wrong[i] {
			k += distinct
		}
		place[i] = int32(k)
	}
	stream := drawing(seed, inSide)
	counts := make([]int32, 2*distinct)
	again := risks{right: counts[:distinct], wrong: counts[distinct:]}
	drawn := make([]float64, resamples)
	for i := range drawn {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		draw(stream, place, counts)
		drawn[i] = again.area()
	}
	return drawn, nil
}

// IntervalsOf returns the struct, such as compare.Intervals, of the intervals of what
// Bootstrap drew, which is something: of each metric in their order.
func IntervalsOf[T any](drawn []Metrics) (v T) {
	of := make([][]float64, len(Figures[float64](&Metrics{})))
	for i := range drawn {
		for f, x := range Figures[float64](&drawn[i]) {
			of[f] = append(of[f], *x)
		}
	}
	for f, ends := range Figures[[2]float64](&v) {
		*ends = Interval(of[f])
	}
	return v
}

// Interval returns the ends of the middle confidenceLevel of x, which it reorders.
func Interval(x []float64) [2]float64 {
	return [2]float64{quantile.Percentile(x, 50*(1-confidenceLevel)), quantile.Percentile(x, 50*(1+confidenceLevel))}
}
