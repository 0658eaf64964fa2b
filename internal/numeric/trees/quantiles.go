package trees

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas/blas32"
)

// The distinct targets are divided into at most numBlocks blocks of equal size. A leaf with
// at least largeLeaf members stores how many of its members are before each block. At the
// end of a block, each large leaf then contributes a single number to the distribution
// function. The members of small leaves are added one by one.
const (
	numBlocks = 128
	largeLeaf = 64
	// rowsAtOnce is the number of rows that pass through a tree before they pass through the
	// next tree.
	rowsAtOnce = 256
)

// index holds what prediction needs in addition to the stored fields of a Forest.
type index struct {
	first  []int32 // first leaf of each tree
	starts []int   // start of each leaf in Members, followed by the end of the last leaf
	// blockStarts holds the start of each large leaf in membersBefore, or −1 for a small leaf.
	blockStarts   []int32
	membersBefore []int32 // for each large leaf, its number of members before each block, and its size
	// free holds readers for reuse. A reader holds about one number for each distinct
	// training target, so it would be slow to allocate one for each predicted row.
	free *sync.Pool
}

// prepare computes the index.
func (f *Forest) prepare() {
	size, x := f.blockSize(), index{starts: []int{0}, free: new(sync.Pool)}
	leaves := int32(0)
	for _, t := range f.Trees {
		x.first = append(x.first, leaves)
		leaves += int32(t.Leaves)
	}
	for l, n := range f.Sizes {
		members := f.Members[x.starts[l]:][:n]
		x.starts = append(x.starts, x.starts[l]+int(n))
		if n < largeLeaf {
			x.blockStarts = append(x.blockStarts, -1)
			continue
		}
		x.blockStarts = append(x.blockStarts, int32(len(x.membersBefore)))
		count := 0
		for b := range numBlocks + 1 {
			for count < len(members) && int(members[count]) < b*size {
				count++
			}
			x.membersBefore = append(x.membersBefore, int32(count))
		}
	}
	f.index = x
}

// blockSize returns the number of values in a block.
func (f *Forest) blockSize() int { return (len(f.Values) + numBlocks - 1) / numBlocks }

// Quantiles sets dst, n×levels, to the quantiles of the rows of x, n×d, at levels in (0,1).
//
// The quantile at τ is the smallest training target y with F̂(y|x) ≥ τ. The distribution
// function is F̂(y|x) = Σᵢ wᵢ(x)·1{yᵢ ≤ y} over the training rows i. In each tree, row i
// makes up a fraction of the leaf that x reaches, possibly 0. The weight wᵢ(x) is the mean
// of this fraction over trees (Meinshausen 2006, equations 4–6). Fractions refer to the
// bootstrap sample of the tree.
func (f *Forest) Quantiles(dst []float32, x blas32.General, levels []float64) {
	if len(dst) != x.Rows*len(levels) {
		panic(fmt.Sprintf("trees: room for %d quantiles of %d rows and %d levels", len(dst), x.Rows, len(levels)))
	}
	threads := runtime.GOMAXPROCS(0)
	readers := make([]*reader, threads)
	chunks := (x.Rows + rowsAtOnce - 1) / rowsAtOnce
	inParallel(threads, chunks, func(worker, c int) {
		if readers[worker] == nil {
			if readers[worker], _ = f.free.Get().(*reader); readers[worker] == nil {
				readers[worker] = newReader(f)
			}
		}
		r := readers[worker]
		lo, hi := c*rowsAtOnce, min((c+1)*rowsAtOnce, x.Rows)
		r.descend(x, lo, hi)
		for i := lo; i < hi; i++ {
			r.row(dst[i*len(levels):(i+1)*len(levels)], i-lo, levels)
		}
	})
	for _, r := range readers {
		if r != nil {
			f.free.Put(r)
		}
	}
}

// reader is the memory that one goroutine needs for predictions.
type reader struct {
	*Forest
	size   int     // number of values in a block
	leaves []int32 // leaf that each row of descend reaches in each tree
	// valueWeights and cumulative combine the small leaves that the current row reaches.
	// valueWeights holds the weight of each value, and cumulative the weight of all values
	// before each block.
	valueWeights []float64
	cumulative   [numBlocks + 1]float64
	marked       [numBlocks]bool // blocks with values from small leaves
	large        []reachedLeaf   // large leaves that the current row reaches
	blockWeights []float64       // weight of each value in one block
}

// reachedLeaf is a large leaf that the current row reaches.
type reachedLeaf struct {
	members, before []int32
	weight          float64
}

func newReader(f *Forest) *reader {
	size := f.blockSize()
	return &reader{
		Forest: f, size: size,
		valueWeights: make([]float64, numBlocks*size),
		blockWeights: make([]float64, size),
	}
}

// descend finds the leaves of the rows of x with indices in [lo,hi). It goes tree by tree, so
// that a tree stays in the cache.
func (r *reader) descend(x blas32.General, lo, hi int) {
	n := len(r.Trees)
	r.leaves = slices.Grow(r.leaves[:0], (hi-lo)*n)[:(hi-lo)*n]
	for k := range r.Trees {
		t := &r.Trees[k]
		for i := lo; i < hi; i++ {
			r.leaves[(i-lo)*n+k] = r.first[k] + t.Leaf(x.Data[i*x.Stride:i*x.Stride+x.Cols])
		}
	}
}

// row sets dst to the quantiles of a row at levels. offset is the position of the row among
// the rows of descend.
func (r *reader) row(dst []float32, offset int, levels []float64) {
	r.addLeaves(r.leaves[offset*len(r.Trees) : (offset+1)*len(r.Trees)])
	for l, tau := range levels {
		dst[l] = r.Values[r.valueIndex(requiredWeight(tau, len(r.Trees)))]
	}
	for b, marked := range r.marked {
		if marked {
			clear(r.valueWeights[b*r.size : (b+1)*r.size])
		}
	}
}

// addLeaves adds up the small leaves that a row reaches, and lists the large ones.
func (r *reader) addLeaves(leaves []int32) {
	r.large = r.large[:0]
	clear(r.marked[:])
	clear(r.cumulative[:])
	for _, l := range leaves {
		members := r.Members[r.starts[l]:r.starts[l+1]]
		weight := 1 / float64(len(members))
		if start := r.blockStarts[l]; start >= 0 {
			r.large = append(r.large, reachedLeaf{members, r.membersBefore[start : start+numBlocks+1], weight})
			continue
		}
		for _, m := range members {
			r.valueWeights[m] += weight
			r.marked[int(m)/r.size] = true
		}
	}
	for b, marked := range r.marked {
		sum := r.cumulative[b]
		if marked {
			for _, w := range r.valueWeights[b*r.size : (b+1)*r.size] {
				sum += w
			}
		}
		r.cumulative[b+1] = sum
	}
}

// weightBefore returns the weight of all values before block b.
func (r *reader) weightBefore(b int) float64 {
	sum := r.cumulative[b]
	for i := range r.large {
		leaf := &r.large[i]
		sum += float64(leaf.before[b]) * leaf.weight
	}
	return sum
}

// valueIndex returns the index of the first value at which the cumulative weight is at
// least weight.
func (r *reader) valueIndex(weight float64) int {
	// The cumulative weight before block lo is below weight. Before block hi it is not, unless
	// hi is the end.
	lo, hi := 0, numBlocks
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; r.weightBefore(mid) >= weight {
			hi = mid
		} else {
			lo = mid
		}
	}
	first := lo * r.size
	copy(r.blockWeights, r.valueWeights[first:first+r.size])
	for i := range r.large {
		leaf := &r.large[i]
		for _, m := range leaf.members[leaf.before[lo]:leaf.before[lo+1]] {
			r.blockWeights[int(m)-first] += leaf.weight
		}
	}
	sum := r.weightBefore(lo)
	last := 0
	for j, w := range r.blockWeights {
		if w == 0 {
			continue
		}
		last = j
		if sum += w; sum >= weight {
			break
		}
	}
	return min(first+last, len(r.Values)-1)
}

// requiredWeight returns the cumulative weight that a level requires, for a forest with this
// number of trees.
func requiredWeight(level float64, trees int) float64 {
	// The weights of each tree add up to 1. Rounding errors can make a sum slightly smaller
	// than the level that it should equal.
	return max(level*float64(trees)-1e-9, math.SmallestNonzeroFloat64)
}
