package calibrate

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/internal/numeric/kmeans"
)

// clusters divides classes by their scores, some of the calibration rows, and says
// which cluster each class is in and which rows served for it. Of k classes a share
// k/(75+k) of the rows serves. Cluster 0 is that of classes of too few of them to
// know their quantile 1−α; the others are divided by k-means on quantiles of their
// scores into half as many as the smallest has rows. Thresholds of clusters are to
// come from the rows that did not serve.
func clusters(labels []int, scores []float64, alpha float64, seed uint64) (of []int, served []bool) {
	served = make([]bool, len(labels))
	k := len(slices.Compact(slices.Sorted(slices.Values(labels))))
	parts := make([][]float64, slices.Max(labels)+1)
	for i, label := range labels {
		if served[i] = uniform(seed, uint64(i), clusterStream) < float64(k)/float64(75+k); served[i] {
			parts[label] = append(parts[label], scores[i])
		}
	}
	least := math.MaxInt
	for class, part := range parts {
		if hypothesis.Allowed(len(part), hypothesis.Forgive(alpha)) > 0 {
			least = min(least, len(part))
		} else {
			parts[class] = nil
		}
	}
	return divide(parts, least/2, seed), served
}

// divide numbers from 1 the clusters of classes, k of them, by the scores of each;
// those without any, or all where classes are too few for k, are in cluster 0.
func divide(parts [][]float64, k int, seed uint64) []int {
	levels := []float64{.5, .6, .7, .8, .9}
	of := make([]int, len(parts))
	var enough []int
	x := blas32.General{Cols: len(levels), Stride: len(levels)}
	for class, part := range parts {
		if len(part) == 0 {
			continue
		}
		sorted := slices.Sorted(slices.Values(part))
		for _, q := range levels {
			x.Data = append(x.Data, float32(sorted[int(math.Ceil(q*float64(len(sorted))))-1]))
		}
		enough = append(enough, class)
	}
	if x.Rows = len(enough); k < 2 || x.Rows <= k {
		return of
	}
	// Nothing ends it early.
	found, _ := kmeans.Cluster(context.Background(), x, k, rand.New(rand.NewPCG(seed, clusterStream)))
	for i, class := range enough {
		of[class] = 1 + found[i]
	}
	return of
}
