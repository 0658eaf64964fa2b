package trees

import (
	"fmt"
	"math"
	"runtime"

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

// index finds blocks in large leaves.
type index struct {
	// table is the leaf's place in offsets, −1 for a small leaf.
	table   []int32
	offsets []uint32 // (blocks+1) per large leaf, positions in Members
}

// prepare builds what prediction needs besides what is stored.
func (f *Forest) prepare() {
	size := f.blockSize()
	inParallel(runtime.GOMAXPROCS(0), len(f.Trees), func(_, k int) {
		t := &f.Trees[k]
		t.index = index{table: make([]int32, t.Leaves)}
		for l := range t.Leaves {
			lo, hi := t.Start[l], t.Start[l+1]
			if hi-lo < largeLeaf {
				t.index.table[l] = -1
				continue
			}
			t.index.table[l] = int32(len(t.index.offsets))
			at := lo
			for b := range uint32(blocks + 1) {
				for at < hi && t.Members[at] < b*size {
					at++
				}
				t.index.offsets = append(t.index.offsets, at)
			}
		}
	})
}

// blockSize is the number of values in a block.
func (f *Forest) blockSize() uint32 { return uint32((len(f.Values) + blocks - 1) / blocks) }

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
			readers[worker] = newReader(f)
		}
		r := readers[worker]
		lo, hi := c*rowsAtOnce, min((c+1)*rowsAtOnce, x.Rows)
		r.descend(x, lo, hi)
		for i := lo; i < hi; i++ {
			r.row(dst[i*len(levels):(i+1)*len(levels)], i-lo, levels)
		}
	})
}

// reader is the work space of one goroutine that predicts.
type reader struct {
	*Forest
	size   uint32 // of a block
	leaves []int32
	// small leaves, added up: the weight of every value, and of all values
	// before each block.
	fine   []float64
	coarse [blocks + 1]float64
	marked [blocks]bool // blocks that small leaves have values in
	large  []largeRef
	local  []float64
}

// largeRef is a large leaf that the row at hand falls in.
type largeRef struct {
	offsets []uint32
	members []uint32
	first   uint32
	weight  float64
}

func newReader(f *Forest) *reader {
	size := f.blockSize()
	return &reader{
		Forest: f, size: size,
		leaves: make([]int32, rowsAtOnce*len(f.Trees)),
		fine:   make([]float64, blocks*int(size)),
		local:  make([]float64, size),
	}
}

// descend finds the leaves of rows lo…hi−1, tree by tree, so that a tree stays
// in the cache.
func (r *reader) descend(x blas32.General, lo, hi int) {
	n := len(r.Trees)
	for k := range r.Trees {
		t := &r.Trees[k].Tree
		for i := lo; i < hi; i++ {
			r.leaves[(i-lo)*n+k] = t.Leaf(x.Data[i*x.Stride : i*x.Stride+x.Cols])
		}
	}
}

func (r *reader) row(dst []float32, i int, levels []float64) {
	r.gather(r.leaves[i*len(r.Trees) : (i+1)*len(r.Trees)])
	for l, tau := range levels {
		// The weights of every tree add up to one, and rounding may leave a sum
		// short of the level that it equals.
		want := max(tau*float64(len(r.Trees))-1e-9, math.SmallestNonzeroFloat64)
		dst[l] = r.Values[r.rank(want)]
	}
	for b, marked := range r.marked {
		if marked {
			clear(r.fine[b*int(r.size) : (b+1)*int(r.size)])
		}
	}
}

// gather adds up the small leaves and lists the large ones.
func (r *reader) gather(leaves []int32) {
	r.large = r.large[:0]
	clear(r.marked[:])
	clear(r.coarse[:])
	for k, l := range leaves {
		t := &r.Trees[k]
		lo, hi := t.Start[l], t.Start[l+1]
		weight := 1 / float64(hi-lo)
		if at := t.index.table[l]; at >= 0 {
			r.large = append(r.large, largeRef{t.index.offsets[at : at+blocks+1], t.Members, lo, weight})
			continue
		}
		for _, m := range t.Members[lo:hi] {
			r.fine[m] += weight
			r.marked[m/r.size] = true
		}
	}
	for b, marked := range r.marked {
		sum := r.coarse[b]
		if marked {
			for _, w := range r.fine[b*int(r.size) : (b+1)*int(r.size)] {
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
		sum += float64(leaf.offsets[b]-leaf.first) * leaf.weight
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
	first := lo * int(r.size)
	copy(r.local, r.fine[first:first+int(r.size)])
	for i := range r.large {
		leaf := &r.large[i]
		for _, m := range leaf.members[leaf.offsets[lo]:leaf.offsets[lo+1]] {
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
