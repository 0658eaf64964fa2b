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

// clusterClasses clusters classes by the scores of a part of the calibration rows. It returns
// the cluster of each class, and which rows were used to find the clusters. With k classes, a
// fraction k/(75+k) of the rows is used. The thresholds of the clusters should come from the
// other rows.
//
// Cluster 0 holds the classes with too few used rows to know their quantile 1−α. The other
// classes are clustered by k-means on quantiles of their scores. The number of clusters is
// half the number of used rows of the smallest such class.
func clusterClasses(labels []int, scores []float64, alpha float64, seed uint64) (cluster []int, used []bool) {
	used = make([]bool, len(labels))
	k := len(slices.Compact(slices.Sorted(slices.Values(labels))))
	byClass := make([][]float64, slices.Max(labels)+1)
	for i, label := range labels {
		if used[i] = uniform(seed, uint64(i), clusterStream) < float64(k)/float64(75+k); used[i] {
			byClass[label] = append(byClass[label], scores[i])
		}
	}
	smallest := math.MaxInt
	for class, part := range byClass {
		if hypothesis.Allowed(len(part), hypothesis.Forgive(alpha)) > 0 {
			smallest = min(smallest, len(part))
		} else {
			byClass[class] = nil
		}
	}
	return kmeansClusters(byClass, smallest/2, seed), used
}

// kmeansClusters clusters classes by their scores, into k clusters numbered from 1. Classes
// without scores are in cluster 0. All classes are in cluster 0 if there are too few of them
// for k clusters.
func kmeansClusters(scores [][]float64, k int, seed uint64) []int {
	levels := []float64{.5, .6, .7, .8, .9}
	clusters := make([]int, len(scores))
	var classes []int
	x := blas32.General{Cols: len(levels), Stride: len(levels)}
	for class, classScores := range scores {
		if len(classScores) == 0 {
			continue
		}
		sorted := slices.Sorted(slices.Values(classScores))
		for _, q := range levels {
			x.Data = append(x.Data, float32(sorted[int(math.Ceil(q*float64(len(sorted))))-1]))
		}
		classes = append(classes, class)
	}
	if x.Rows = len(classes); k < 2 || x.Rows <= k {
		return clusters
	}
	// The error is that of a cancelled context, and this one is never cancelled.
	assigned, _ := kmeans.Cluster(context.Background(), x, k, rand.New(rand.NewPCG(seed, clusterStream)))
	for i, class := range classes {
		clusters[class] = 1 + assigned[i]
	}
	return clusters
}
