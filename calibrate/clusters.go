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

// clusterClasses puts classes with similar scores into one cluster. It returns the cluster
// of each class, and reports which calibration rows it used. With k classes, it uses a
// random fraction k/(75+k) of the rows. The other rows should calibrate the clusters,
// because their scores did not influence the choice of clusters.
//
// Cluster 0 holds the classes with too few used rows to estimate their quantile 1−α.
// K-means clusters the other classes by quantiles of their scores. The number of clusters
// is half the number of used rows in the smallest of the other classes.
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

// kmeansClusters divides classes into k clusters by their scores, and returns the cluster
// of each class. Clusters are numbered from 1. Classes without scores are in cluster 0. If
// k is below 2, or if at most k classes have scores, all classes are in cluster 0.
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
	// Cluster only fails if the context is cancelled, which cannot happen here.
	assigned, _ := kmeans.Cluster(context.Background(), x, k, rand.New(rand.NewPCG(seed, clusterStream)))
	for i, class := range classes {
		clusters[class] = 1 + assigned[i]
	}
	return clusters
}
