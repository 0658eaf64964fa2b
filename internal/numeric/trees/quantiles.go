package trees

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas/blas32"
)

// The distinct targets are cut into up to blocks blocks of equal size. Leaves
// of at least largeLeaf members know where each block begins among them, so
// that the distribution function at the end of a block is one number per tree.
const (
	blocks    = 128
	largeLeaf = 64
	// rowsAtOnce is how many rows go through one tree before the next.
	rowsAtOnce = 256
)

// index is what prediction needs besides what is stored.
type index struct {
	first  []int32 // of the leaves of each tree
	starts []int   // of each leaf in Members, and the end of the last
	// blocks is where a large leaf's blocks begin in befores, −1 for a small one.
	blocks  []int32
	befores []int32 // members of a leaf before each block, and all
	// free are readers to use again: one is as large as the training rows, which
	// makes rows that are predicted one by one expensive.
	free *sync.Pool
}

// prepare builds the index.
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
			x.blocks = append(x.blocks, -1)
			continue
		}
		x.blocks = append(x.blocks, int32(len(x.befores)))
		at := 0
		for b := range blocks + 1 {
			for at < len(members) && int(members[at]) < b*size {
				at++
			}
			x.befores = append(x.befores, int32(at))
		}
	}
	f.index = x
}

// blockSize is the number of values in a block.
func (f *Forest) blockSize() int { return (len(f.Values) + blocks - 1) / blocks }

// Quantiles writes the quantiles of the rows of x, n×d, at levels in (0,1) to
// dst, n × levels. The quantile at τ is the smallest training target y with
// F̂(y|x) ≥ τ, where F̂(y|x) = Σᵢ wᵢ(x)·1{yᵢ ≤ y} and wᵢ(x) is the mean over
// trees of row i's share in the leaf that x falls in (Meinshausen 2006,
// equations 4–6; shares are of the tree's bootstrap sample).
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

// reader is the work space of one goroutine that predicts.
type reader struct {
	*Forest
	size  int // of a block
	falls []int32
	// small leaves, added up: the weight of every value, and of all values
	// before each block.
	fine   []float64
	coarse [blocks + 1]float64
	marked [blocks]bool // blocks that small leaves have values in
	large  []largeLeafAt
	local  []float64
}

// largeLeafAt is a large leaf that the row at hand falls in.
type largeLeafAt struct {
	members, before []int32
	weight          float64
}

func newReader(f *Forest) *reader {
	size := f.blockSize()
	return &reader{
		Forest: f, size: size,
		fine:  make([]float64, blocks*size),
		local: make([]float64, size),
	}
}

// descend finds the leaves of rows lo…hi−1, tree by tree, so that a tree stays
// in the cache.
func (r *reader) descend(x blas32.General, lo, hi int) {
	n := len(r.Trees)
	r.falls = slices.Grow(r.falls[:0], (hi-lo)*n)[:(hi-lo)*n]
	for k := range r.Trees {
		t := &r.Trees[k]
		for i := lo; i < hi; i++ {
			r.falls[(i-lo)*n+k] = r.first[k] + t.Leaf(x.Data[i*x.Stride:i*x.Stride+x.Cols])
		}
	}
}

func (r *reader) row(dst []float32, i int, levels []float64) {
	r.gather(r.falls[i*len(r.Trees) : (i+1)*len(r.Trees)])
	for l, tau := range levels {
		dst[l] = r.Values[r.rank(wanted(tau, len(r.Trees)))]
	}
	for b, marked := range r.marked {
		if marked {
			clear(r.fine[b*r.size : (b+1)*r.size])
		}
	}
}

// gather adds up the small leaves and lists the large ones.
func (r *reader) gather(falls []int32) {
	r.large = r.large[:0]
	clear(r.marked[:])
	clear(r.coarse[:])
	for _, l := range falls {
		members := r.Members[r.starts[l]:r.starts[l+1]]
		weight := 1 / float64(len(members))
		if at := r.blocks[l]; at >= 0 {
			r.large = append(r.large, largeLeafAt{members, r.befores[at : at+blocks+1], weight})
			continue
		}
		for _, m := range members {
			r.fine[m] += weight
			r.marked[int(m)/r.size] = true
		}
	}
	for b, marked := range r.marked {
		sum := r.coarse[b]
		if marked {
			for _, w := range r.fine[b*r.size : (b+1)*r.size] {
				sum += w
			}
		}
		r.coarse[b+1] = sum
	}
}

// before is the weight of all values before block b.
func (r *reader) before(b int) float64 {
	sum := r.coarse[b]
	for i := range r.large {
		leaf := &r.large[i]
		sum += float64(leaf.before[b]) * leaf.weight
	}
	return sum
}

// rank is the first value at which the weights add up to at least want.
func (r *reader) rank(want float64) int {
	// Weights before block lo are less than want, those before hi are not, or
	// hi is the end.
	lo, hi := 0, blocks
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; r.before(mid) >= want {
			hi = mid
		} else {
			lo = mid
		}
	}
	first := lo * r.size
	copy(r.local, r.fine[first:first+r.size])
	for i := range r.large {
		leaf := &r.large[i]
		for _, m := range leaf.members[leaf.before[lo]:leaf.before[lo+1]] {
			r.local[int(m)-first] += leaf.weight
		}
	}
	sum := r.before(lo)
	last := 0
	for j, w := range r.local {
		if w == 0 {
			continue
		}
		last = j
		if sum += w; sum >= want {
			break
		}
	}
	return min(first+last, len(r.Values)-1)
}

// wanted is what weights add up to at a level at least.
func wanted(level float64, trees int) float64 {
	// The weights of every tree add up to one, and rounding may leave a sum
	// short of the level that it equals.
	return max(level*float64(trees)-1e-9, math.SmallestNonzeroFloat64)
}
