// Package linkage finds clusters of points, and whether there are any.
package linkage

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
)

const (
	// minSize is the smallest number of points in a cluster, and maxClusters the largest number
	// of clusters.
	minSize, maxClusters = 5, 6
	// maxCut is the largest number of parts that points are cut into. Parts with fewer than
	// minSize points are no clusters.
	maxCut = 30
	// maxDirections is the number of principal directions that distances are measured in.
	maxDirections = 50
	// references is the number of random data sets that points are compared with. A single
	// cluster is thus divided with probability 1/(references+1).
	references = 19
	// minSilhouette is the mean silhouette below which there is no substantial structure, after
	// Kaufman and Rousseeuw (1990).
	minSilhouette = 0.25
)

// None is the cluster of a point that is in no cluster.
const None = -1

// Clusters returns the cluster of each row of x, numbered from 0, or None. It returns nil if
// the rows have no clusters.
//
// The rows are joined by Ward's method. The number of clusters has the largest mean silhouette
// (Rousseeuw 1987). As in SigClust (Liu et al. 2008), that silhouette must be larger than
// those of rows of a single normal distribution with the same variances.
func Clusters(ctx context.Context, x *mat.Dense) ([]int, error) {
	n, _ := x.Dims()
	if n < 2*minSize {
		return nil, nil
	}
	points, deviations, err := principal(x)
	if err != nil {
		return nil, err
	}
	clusters, found := best(points)
	if found < minSilhouette {
		return nil, nil
	}
	r := rand.New(rand.NewPCG(uint64(n), 1)) // equal points give equal clusters
	for range references {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for i := range points {
			for j, d := range deviations {
				points[i][j] = d * r.NormFloat64()
			}
		}
		if _, silhouette := best(points); silhouette >= found {
			return nil, nil
		}
	}
	return clusters, nil
}

// principal returns the rows of x in their principal directions, and the standard deviations
// in these.
func principal(x *mat.Dense) (points [][]float64, deviations []float64, err error) {
	n, width := x.Dims()
	centred := mat.DenseCopyOf(x)
	for j := range width {
		mean := mat.Sum(x.ColView(j)) / float64(n)
		for i := range n {
			centred.Set(i, j, x.At(i, j)-mean)
		}
	}
	gram := mat.NewSymDense(n, nil)
	gram.SymOuterK(1, centred)
	values, vectors, err := eigen.Sym(gram)
	if err != nil {
		return nil, nil, err
	}
	points = make([][]float64, n)
	for k := range min(n, width, maxDirections) {
		at := n - 1 - k // eigenvalues are in increasing order
		length := math.Sqrt(max(values[at], 0))
		deviations = append(deviations, length/math.Sqrt(float64(n)))
		for i := range points {
			points[i] = append(points[i], vectors.At(i, at)*length)
		}
	}
	return points, deviations, nil
}

// best returns the clusters with the largest mean silhouette, and that silhouette. It is
// negative if there are fewer than two clusters.
func best(points [][]float64) (clusters []int, silhouette float64) {
	distances := squaredDistances(points)
	merges := ward(distances)
	silhouette = -1
	n := len(points)
	previous := 0
	for parts := 2; parts <= min(maxCut, n); parts++ {
		c, count := cut(merges[:n-parts], n)
		if count > maxClusters {
			break
		}
		if count < 2 || count == previous {
			continue
		}
		previous = count
		if s := meanSilhouette(distances, c, count); s > silhouette {
			clusters, silhouette = c, s
		}
	}
	return clusters, silhouette
}

func squaredDistances(points [][]float64) [][]float64 {
	d := make([][]float64, len(points))
	for i := range d {
		d[i] = make([]float64, len(points))
		for j := range i {
			sum := 0.0
			for k, v := range points[i] {
				diff := v - points[j][k]
				sum += float64(diff * diff) // the conversion keeps all processors from fusing the sum
			}
			d[i][j], d[j][i] = sum, sum
		}
	}
	return d
}

// ward joins points by Ward's method. It returns the pairs of points whose parts are joined,
// in order.
func ward(distances [][]float64) (merges [][2]int) {
	n := len(distances)
	d, size, active := make([][]float64, n), make([]float64, n), make([]int, n)
	for i := range d {
		d[i], size[i], active[i] = append([]float64(nil), distances[i]...), 1, i
	}
	for len(active) > 1 {
		a, b, least := 0, 1, math.Inf(1)
		for k, i := range active {
			for l := range k {
				if v := d[i][active[l]]; v < least {
					a, b, least = l, k, v
				}
			}
		}
		i, j := active[a], active[b]
		merges = append(merges, [2]int{i, j})
		for _, k := range active {
			if k != i && k != j { // the formula of Lance and Williams (1967)
				v := (float64((size[i]+size[k])*d[i][k]) + float64((size[j]+size[k])*d[j][k]) - float64(size[k]*d[i][j])) / (size[i] + size[j] + size[k])
				d[i][k], d[k][i] = v, v
			}
		}
		size[i] += size[j]
		active = append(active[:b], active[b+1:]...)
	}
	return merges
}

// cut returns the clusters of n points after some merges, and their number. Clusters are
// numbered by their first points.
func cut(merges [][2]int, n int) (clusters []int, count int) {
	part := make([]int, n)
	for i := range part {
		part[i] = i
	}
	for _, m := range merges {
		for i, p := range part {
			if p == m[1] {
				part[i] = m[0]
			}
		}
	}
	size, number := make([]int, n), make([]int, n)
	for _, p := range part {
		size[p]++
		number[p] = None
	}
	clusters = make([]int, n)
	for i, p := range part {
		if clusters[i] = None; size[p] < minSize {
			continue
		}
		if number[p] == None {
			number[p] = count
			count++
		}
		clusters[i] = number[p]
	}
	return clusters, count
}

// meanSilhouette returns the mean silhouette of all points. A point in no cluster has 0.
func meanSilhouette(squared [][]float64, clusters []int, count int) (mean float64) {
	size := make([]int, count)
	for _, c := range clusters {
		if c != None {
			size[c]++
		}
	}
	for i, c := range clusters {
		if c == None {
			continue
		}
		sums := make([]float64, count)
		for j, other := range clusters {
			if other != None {
				sums[other] += math.Sqrt(squared[i][j])
			}
		}
		within, nearest := sums[c]/float64(size[c]-1), math.Inf(1)
		for other, sum := range sums {
			if other != c {
				nearest = min(nearest, sum/float64(size[other]))
			}
		}
		if largest := max(within, nearest); largest > 0 {
			mean += (nearest - within) / largest / float64(len(clusters))
		}
	}
	return mean
}
