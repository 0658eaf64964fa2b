// Package kmeans clusters rows.
package kmeans

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
)

// maxIterations limits the iterations of Lloyd's algorithm.
const maxIterations = 300

// Cluster divides the rows of x into k clusters, or fewer if there are fewer distinct rows or
// a cluster becomes empty. It returns the cluster of each row, numbered from 0. An error
// occurs only if ctx is cancelled.
//
// The centres come from greedy k-means++ (Arthur & Vassilvitskii 2007). Lloyd's algorithm
// then improves them until no row changes its cluster, for at most maxIterations.
func Cluster(ctx context.Context, x blas32.General, k int, r *rand.Rand) ([]int, error) {
	centres, err := chooseCentres(ctx, x, k, r)
	if err != nil {
		return nil, err
	}
	clusters := make([]int, x.Rows)
	for range maxIterations {
		size, sum := make([]float64, centres.Rows), dense.New(centres.Rows, x.Cols)
		changed, err := assign(ctx, clusters, x, centres)
		if err != nil {
			return nil, err
		}
		if !changed {
			break
		}
		for i, c := range clusters {
			size[c]++
			total := dense.Row(sum, c)
			for j, v := range rows.Row(x, i) {
				total[j] += float64(v)
			}
		}
		for c, n := range size {
			// An empty cluster keeps its centre.
			if n > 0 {
				blas64.Scal(1/n, dense.Vector(dense.Row(sum, c)))
				copy(dense.Row(centres, c), dense.Row(sum, c))
			}
		}
	}
	compact(clusters)
	return clusters, nil
}

// assign sets the cluster of each row of x to the nearest centre, and reports whether any
// cluster changed.
func assign(ctx context.Context, clusters []int, x blas32.General, centres blas64.General) (changed bool, err error) {
	const blockRows = 1024
	norms := make([]float64, centres.Rows)
	for c := range norms {
		norms[c] = dense.SquaredNorm(dense.Row(centres, c))
	}
	for first := 0; first < x.Rows; first += blockRows {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		block := dense.Less(rows.Slice(x, first, min(first+blockRows, x.Rows)), nil)
		dots := dense.New(block.Rows, centres.Rows)
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, block, centres, 0, dots)
		for i := range block.Rows {
			nearest, minDistance := 0, math.Inf(1)
			for c, dot := range dense.Row(dots, i) {
				if d := norms[c] - 2*dot; d < minDistance {
					nearest, minDistance = c, d
				}
			}
			changed = changed || clusters[first+i] != nearest
			clusters[first+i] = nearest
		}
	}
	return changed, nil
}

// compact renumbers clusters from 0 without the empty ones.
func compact(clusters []int) {
	present := slices.Compact(slices.Sorted(slices.Values(clusters)))
	for i, c := range clusters {
		clusters[i], _ = slices.BinarySearch(present, c)
	}
}

// chooseCentres picks k different rows of x as centres, or fewer if x has fewer different
// rows. The first is drawn uniformly. Each of the others is the best of a few draws with
// probabilities proportional to the squared distance to the nearest previous centre.
func chooseCentres(ctx context.Context, x blas32.General, k int, r *rand.Rand) (blas64.General, error) {
	chosen := []int{r.IntN(x.Rows)}
	nearest := make([]float64, x.Rows)
	for i := range nearest {
		nearest[i] = rows.SquaredDistance(rows.Row(x, i), rows.Row(x, chosen[0]))
	}
	tries := 2 + int(math.Log(float64(k)))
	for len(chosen) < k {
		if err := ctx.Err(); err != nil {
			return blas64.General{}, err
		}
		total := floats.Sum(nearest)
		if total == 0 {
			break
		}
		var best []float64
		next, minSum := 0, math.Inf(1)
		for range tries {
			c := draw(nearest, total*r.Float64())
			distances := make([]float64, x.Rows)
			for i := range distances {
				distances[i] = min(nearest[i], rows.SquaredDistance(rows.Row(x, i), rows.Row(x, c)))
			}
			if sum := floats.Sum(distances); sum < minSum {
				best, next, minSum = distances, c, sum
			}
		}
		nearest, chosen = best, append(chosen, next)
	}
	centres := dense.New(len(chosen), x.Cols)
	for c, i := range chosen {
		for j, v := range rows.Row(x, i) {
			centres.Data[c*x.Cols+j] = float64(v)
		}
	}
	return centres, nil
}

// draw returns the first index at which the cumulative sum of weights exceeds target. It
// never returns an index of weight 0: if rounding keeps the sum too small, it returns the
// last index of positive weight.
func draw(weights []float64, target float64) int {
	last := 0
	for i, w := range weights {
		if w > 0 {
			last = i
		}
		if target -= w; target < 0 && w > 0 {
			break
		}
	}
	return last
}
