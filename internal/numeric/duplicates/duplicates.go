// Package duplicates finds rows that are nearly equal. It compares a row with all others, and
// needs little memory in addition to the rows.
package duplicates

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/neighbours"
)

// Reference holds rows, and the distance within which two rows count as copies. The
// distance is chosen so that an independent new row counts as a copy of some row with
// probability Chance. Columns are scaled by their standard deviations.
//
// The distance is extrapolated from the distances of rows to their nearest and second nearest
// row. The ratio of these distances gives the number of dimensions d that the rows fill (Facco
// et al. 2017). The fraction of rows with a neighbour within a distance is proportional to the
// d-th power of the distance.
//
// One distance for all rows would be too large for dense rows, such as pictures of a simple
// class. So a copy must also be closer than a fraction of the distance of the reference row to
// its own neighbours. In a Poisson process of d dimensions, a new row is closer than a fraction
// f of the distance to the k-th neighbour with probability 1 − (1+f^d)^−k, about k·f^d, whatever
// the density is.
type Reference struct {
	index       *neighbours.Index // index of the scaled finite rows
	rowNumbers  []int             // row number of each row of the index
	mean, scale []float64
	minDistance float64 // rows within this distance are always copies
	maxDistance float64 // largest distance between copies
	fraction    float64 // largest distance to a copy, as a fraction of the distance to the row's k-th neighbour
}

const (
	// Chance is the probability that an independent row counts as a copy.
	Chance = 1e-3

	sampleSize = 500 // largest number of rows for which distances to neighbours are computed
	minSample  = 10  // smallest number of such rows that is enough for an estimate
	// maxRelativeDistance is the largest distance between copies, as a fraction of the median
	// distance to the nearest row. If columns have few distinct values, the estimate of
	// dimensions is wrong and would give a larger distance.
	maxRelativeDistance = .5
	// minRelativeDistance is the distance within which rows always count as copies, as a
	// fraction of the typical distance of two rows. The features that a model computes for an
	// input change by about this fraction if the other rows of the batch change.
	minRelativeDistance = 1e-6
	// ownNeighbours is the number k of the neighbour that shows how dense rows are. A larger one
	// varies less, but it may lie outside of a small cluster.
	ownNeighbours = 5
)

// New copies the finite rows of x, n×h, and estimates the largest distance between copies. It
// ignores the other rows.
func New(ctx context.Context, x blas32.General) (*Reference, error) {
	r := &Reference{mean: make([]float64, x.Cols), scale: make([]float64, x.Cols)}
	for i := range x.Rows {
		if !finite(rows.Row(x, i)) {
			continue
		}
		r.rowNumbers = append(r.rowNumbers, i)
		n := float64(len(r.rowNumbers))
		for j, v := range rows.Row(x, i) { // Welford's algorithm
			d := float64(v) - r.mean[j]
			r.mean[j] += d / n
			r.scale[j] += d * (float64(v) - r.mean[j])
		}
	}
	n := float64(max(len(r.rowNumbers), 1))
	var meanVariance float64
	for j, s := range r.scale {
		r.scale[j] = math.Sqrt(s / n)
		meanVariance += s / n / float64(x.Cols)
	}
	for j, s := range r.scale {
		if s == 0 { // a constant column gets the mean scale, because it may vary in other rows
			s = math.Sqrt(meanVariance)
		}
		if r.scale[j] = 1; s > 0 {
			r.scale[j] = 1 / s
		}
	}
	scaled := r.scaled(rows.Select(x, r.rowNumbers))
	r.minDistance = minRelativeDistance * math.Sqrt(2*float64(x.Cols))
	r.maxDistance = r.minDistance
	if scaled.Rows == 0 {
		return r, nil
	}
	r.index = neighbours.New(scaled, false)
	return r, r.estimateDistance(ctx)
}

func finite(row []float32) bool {
	return !slices.ContainsFunc(row, func(v float32) bool { return !rows.Finite(float64(v)) })
}

// estimateDistance increases the largest distance between copies to an estimate. If there
// are too few rows for an estimate, the distance stays as it is.
func (r *Reference) estimateDistance(ctx context.Context) error {
	x := r.index.Rows
	var sample []int
	for i := 0; i < x.Rows; i += (x.Rows + sampleSize - 1) / sampleSize {
		sample = append(sample, i)
	}
	neighboursOf, err := r.index.Nearest(ctx, rows.Select(x, sample), 3, false)
	if err != nil {
		return err
	}
	var nearest []float64
	var logRatios float64
	for k, list := range neighboursOf {
		list = slices.DeleteFunc(list, func(n neighbours.Neighbour) bool { return n.Row == sample[k] })
		if len(list) < 2 || list[0].Distance <= r.maxDistance {
			continue
		}
		nearest = append(nearest, list[0].Distance)
		logRatios += math.Log(list[1].Distance / list[0].Distance)
	}
	if len(nearest) < minSample {
		return nil
	}
	slices.Sort(nearest)
	dimensions := float64(len(nearest)) / logRatios // Inf if all distances are equal
	r.maxDistance = max(r.maxDistance, nearest[len(nearest)/2]*min(maxRelativeDistance, math.Pow(Chance, 1/dimensions)))
	r.fraction = min(maxRelativeDistance, math.Pow(Chance/ownNeighbours, 1/dimensions))
	return nil
}

func (r *Reference) scaled(x blas32.General) blas32.General {
	s := rows.New(x.Rows, x.Cols)
	for i := range x.Rows {
		out := rows.Row(s, i)
		for j, v := range rows.Row(x, i) {
			out[j] = float32((float64(v) - r.mean[j]) * r.scale[j])
		}
	}
	return s
}

// Nearest returns, for each row of x, the row numbers of the k nearest reference rows, the
// nearest first. A row that is not finite has none.
func (r *Reference) Nearest(ctx context.Context, x blas32.General, k int) ([][]int, error) {
	if len(r.rowNumbers) == 0 {
		return make([][]int, x.Rows), nil
	}
	found, err := r.index.Nearest(ctx, r.scaled(x), k, false)
	nearest := make([][]int, len(found))
	for i, list := range found {
		for _, n := range list {
			nearest[i] = append(nearest[i], r.rowNumbers[n.Row])
		}
	}
	return nearest, err
}

// Like returns, for each row of x, the row number of the reference row that it nearly
// equals, or −1 if there is none.
func (r *Reference) Like(ctx context.Context, x blas32.General) ([]int, error) {
	matches := make([]int, x.Rows)
	for i := range matches {
		matches[i] = -1
	}
	if r.index == nil {
		return matches, nil
	}
	nearest, err := r.index.Nearest(ctx, r.scaled(x), 1, false)
	if err != nil {
		return matches, err
	}
	var near, own []int // rows of x near a reference row, and these reference rows
	for i, list := range nearest {
		switch {
		case len(list) == 0 || list[0].Distance > r.maxDistance:
		case list[0].Distance <= r.minDistance:
			matches[i] = r.rowNumbers[list[0].Row]
		default:
			near, own = append(near, i), append(own, list[0].Row)
		}
	}
	if near == nil {
		return matches, nil
	}
	neighboursOf, err := r.index.Nearest(ctx, rows.Select(r.index.Rows, own), ownNeighbours+1, false) // with the row itself
	for k, list := range neighboursOf {
		if i := near[k]; nearest[i][0].Distance <= r.fraction*list[len(list)-1].Distance {
			matches[i] = r.rowNumbers[own[k]]
		}
	}
	return matches, err
}
