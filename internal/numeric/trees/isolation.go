package trees

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"
)

// Isolate grows an isolation tree. It splits rows of x at random values of random columns
// until the rows in each leaf are equal. It stops earlier at the depth that would suffice
// to separate all rows by halving. It reorders rows. paths holds the path length of each
// leaf: the number of splits that lead to it, plus the expected number of further splits
// that would separate its rows.
func Isolate(x blas32.General, rows []int, rng *rand.Rand) (t *Tree, paths []float64) {
	g := isolation{x: x, rng: rng, limit: bits.Len(uint(max(len(rows), 2) - 1)), tree: &Tree{}}
	g.tree.add()
	g.split(0, 0, rows)
	return g.tree, g.paths
}

// isolation grows one isolation tree.
type isolation struct {
	x     blas32.General
	rng   *rand.Rand
	limit int // largest depth
	tree  *Tree
	paths []float64
}

// split grows the tree below a node. It divides the rows of the node at random and reorders
// them, or makes the node a leaf.
func (g *isolation) split(node int32, depth int, rows []int) {
	feature, low, high := -1, float32(0), float32(0)
	if len(rows) > 1 && depth < g.limit {
		feature, low, high = g.drawColumn(rows)
	}
	if feature < 0 {
		g.tree.makeLeaf(node)
		g.paths = append(g.paths, float64(depth)+SearchPath(len(rows)))
		return
	}
	threshold := float32(float64(low) + g.rng.Float64()*(float64(high)-float64(low)))
	if threshold >= high {
		threshold = low
	}
	n := 0
	for i, r := range rows {
		if g.value(r, feature) <= threshold {
			rows[i], rows[n] = rows[n], r
			n++
		}
	}
	left, right := g.tree.add(), g.tree.add()
	g.tree.Feature[node], g.tree.Threshold[node], g.tree.Left[node] = int32(feature), threshold, left
	g.split(left, depth+1, rows[:n])
	g.split(right, depth+1, rows[n:])
}

func (g *isolation) value(row, column int) float32 { return g.x.Data[row*g.x.Stride+column] }

// drawColumn draws one of the columns that vary among rows, and returns its range. If no
// column varies, feature is −1.
func (g *isolation) drawColumn(rows []int) (feature int, low, high float32) {
	for _, j := range g.rng.Perm(g.x.Cols) {
		low := g.value(rows[0], j)
		high := low
		for _, r := range rows[1:] {
			v := g.value(r, j)
			low, high = min(low, v), max(high, v)
		}
		if low < high {
			return j, low, high
		}
	}
	return -1, 0, 0
}

// SearchPath returns the mean depth of an unsuccessful search in a random binary search tree
// with n keys.
func SearchPath(n int) float64 {
	switch {
	case n < 2:
		return 0
	case n == 2:
		return 1
	}
	const euler = 0.57721566490153286060651209008240243
	f := float64(n)
	return 2*(math.Log(f-1)+euler) - 2*(f-1)/f
}
