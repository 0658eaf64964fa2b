package baselines

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
)

// kMeansSteps bounds Lloyd's iterations.
const kMeansSteps = 300

// kMeans divides the rows of x into at most k clusters, fewer where distinct
// rows are fewer, and returns which each is in and how many there are.
//
// It begins with greedy k-means++ (Arthur & Vassilvitskii 2007) and goes on
// with Lloyd's algorithm until no row changes its cluster.
func kMeans(ctx context.Context, x blas32.General, k int, r *rand.Rand) (of []int, clusters int, err error) {
	centres, err := seedCentres(ctx, x, k, r)
	if err != nil {
		return nil, 0, err
	}
	k = centres.Rows
	of = make([]int, x.Rows)
	for step := range kMeansSteps {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		changed := step == 0
		for i := range of {
			nearest, least := 0, math.Inf(1)
			for c := range k {
				if d := squaredDistanceTo(row(x, i), centres.Data[c*x.Cols:(c+1)*x.Cols]); d < least {
					nearest, least = c, d
				}
			}
			changed = changed || of[i] != nearest
			of[i] = nearest
		}
		if !changed {
			break
		}
		size := make([]float64, k)
		sum := newMatrix64(k, x.Cols)
		for i, c := range of {
			size[c]++
			for j, v := range row(x, i) {
				sum.Data[c*x.Cols+j] += float64(v)
			}
		}
		for c, n := range size {
			// A cluster that has lost its rows stays where it is.
			if n == 0 {
				continue
			}
			for j := range x.Cols {
				centres.Data[c*x.Cols+j] = sum.Data[c*x.Cols+j] / n
			}
		}
	}
	return of, compactClusters(of, k), nil
}

// compactClusters numbers the clusters that have rows from 0 and says how many
// they are.
func compactClusters(of []int, k int) int {
	number := make([]int, k)
	for _, c := range of {
		number[c] = 1
	}
	n := 0
	for c := range number {
		if number[c] == 1 {
			number[c] = n
			n++
		}
	}
	for i, c := range of {
		of[i] = number[c]
	}
	return n
}

// seedCentres picks rows of x, each after the first with a probability that
// grows with the squared distance to those before it, the best of a few tries.
func seedCentres(ctx context.Context, x blas32.General, k int, r *rand.Rand) (blas64.General, error) {
	centres := blas64.General{Cols: x.Cols, Stride: x.Cols}
	add := func(i int) []float64 {
		for _, v := range row(x, i) {
			centres.Data = append(centres.Data, float64(v))
		}
		centres.Rows++
		return centres.Data[len(centres.Data)-x.Cols:]
	}
	nearest := make([]float64, x.Rows)
	first := add(r.IntN(x.Rows))
	for i := range nearest {
		nearest[i] = squaredDistanceTo(row(x, i), first)
	}
	tries := 2 + int(math.Log(float64(k)))
	for centres.Rows < k {
		if err := ctx.Err(); err != nil {
			return centres, err
		}
		var total float64
		for _, d := range nearest {
			total += d
		}
		if total == 0 {
			break
		}
		var best []float64
		chosen, least := 0, math.Inf(1)
		for range tries {
			i := drawIndex(nearest, total*r.Float64())
			to := make([]float64, x.Cols)
			for j, v := range row(x, i) {
				to[j] = float64(v)
			}
			left, sum := make([]float64, x.Rows), 0.
			for n := range left {
				left[n] = min(nearest[n], squaredDistanceTo(row(x, n), to))
				sum += left[n]
			}
			if sum < least {
				best, chosen, least = left, i, sum
			}
		}
		nearest = best
		add(chosen)
	}
	return centres, nil
}

// drawIndex is the first index up to which weights sum to more than at.
func drawIndex(weights []float64, at float64) int {
	last := 0
	for i, w := range weights {
		if w > 0 {
			last = i
		}
		if at -= w; at < 0 && w > 0 {
			break
		}
	}
	return last
}

func squaredDistanceTo(x []float32, y []float64) float64 {
	var s float64
	for j, v := range x {
		d := float64(v) - y[j]
		s += d * d
	}
	return s
}
