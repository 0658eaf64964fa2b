// Package trees grows regression trees that reduce the variance of a target. It builds two
// models of conditional quantiles from such trees: quantile regression forests, and
// gradient boosting of the pinball loss. It also grows isolation trees.
//
// Results depend only on data, options and seed, not on the number of threads.
package trees

import (
	"cmp"
	"math"
	"math/rand/v2"
)

// Options limits the growth of a tree. With the zero value, a tree grows until all targets
// or all inputs in each leaf are equal.
type Options struct {
	MaxDepth int // largest depth of a leaf, with depth 0 at the root; 0 stands for no limit
	MinSplit int // smallest number of rows of a node that is split; 0 stands for 2
	MinLeaf  int // smallest number of rows in a leaf; 0 stands for 1
	// MaxFeatures is the fraction of columns, in (0,1], that each node searches for splits. 0
	// stands for 1. The columns are drawn anew for each node. If none of them can be split,
	// the node tries other columns.
	MaxFeatures float64
}

// withDefaults returns o with defaults instead of zero values.
func (o Options) withDefaults() Options {
	o.MaxDepth, o.MinSplit = cmp.Or(o.MaxDepth, math.MaxInt32), cmp.Or(o.MinSplit, 2)
	o.MinLeaf, o.MaxFeatures = cmp.Or(o.MinLeaf, 1), cmp.Or(o.MaxFeatures, 1)
	return o
}

// grower grows trees one after another and reuses its memory.
type grower struct {
	data           *Data
	options        Options
	columnsPerNode int // number of columns that a node searches first
	workers        int
	search         *histogram

	bag      []int32  // row numbers of the bootstrap sample, increasing
	targets  []target // target of each row in the bag
	rows     []int32  // indices into bag, ordered such that the rows of a node are contiguous
	scratch  []int32
	goesLeft []uint8 // for each row in the bag, 1 if it goes to the left child
	seed     uint64

	tree  Tree
	leaf  []int32 // leaf of each row of data, or −1 if the row is not in the bag
	stack []*node
	free  []*node

	best       [2][]split // best split of each child in each column
	candidates [2][]bool  // whether each child searches each column
	order      []int      // columns in random order
}

// target is the target of a row and its weight, the number of times that the row is in the
// bag.
type target struct{ y, weight float64 }

// node is a node of the tree that may still be split.
type node struct {
	id, depth   int32
	lo, hi      int    // the rows of the node are grower.rows[lo:hi]
	path        uint64 // hash of the position in the tree
	weight, sum float64
	pure        bool // whether all targets are equal
	split       split
	cells       []cell // histograms of all columns, or nil
}

func (n *node) rows() int { return n.hi - n.lo }

// split is the best split of a node so far. Without a split, gain is negative.
type split struct {
	gain      float64
	feature   int32
	threshold float32
}

var noSplit = split{gain: -1}

func newGrower(data *Data, o Options, workers int) *grower {
	o = o.withDefaults()
	g := &grower{
		data: data, options: o, workers: workers,
		columnsPerNode: max(1, int(o.MaxFeatures*float64(data.cols))),
		rows:           make([]int32, data.rows), scratch: make([]int32, data.rows), goesLeft: make([]uint8, data.rows),
		leaf: make([]int32, data.rows), targets: make([]target, 0, data.rows), order: make([]int, data.cols),
	}
	for c := range 2 {
		g.best[c] = make([]split, data.cols)
		g.candidates[c] = make([]bool, data.cols)
	}
	g.search = newHistogram(g)
	return g
}

// grow grows a tree for the targets y of the rows of data. Row i has the weight counts[i],
// or the weight 1 if counts is nil. The caller owns the tree. g.leaf is valid until the
// next call.
func (g *grower) grow(y []float64, counts []int32, seed uint64) Tree {
	g.bag, g.targets, g.seed = g.bag[:0], g.targets[:0], seed
	for i, v := range y {
		w := int32(1)
		if counts != nil {
			w = counts[i]
		}
		g.leaf[i] = -1
		if w == 0 {
			continue
		}
		g.rows[len(g.bag)] = int32(len(g.bag))
		g.bag = append(g.bag, int32(i))
		g.targets = append(g.targets, target{v, float64(w)})
	}
	g.tree = Tree{}
	root := g.node(0, len(g.bag), 0, 1)
	if g.splittable(root) {
		g.search.beginTree(root)
		g.drawCandidates(root, g.candidates[0])
		g.forEachColumn(root.rows(), func(worker, f int) {
			g.best[0][f] = noSplit
			if g.candidates[0][f] {
				g.best[0][f] = g.search.findSplit(worker, f, root)
			}
		})
		g.chooseSplit(root, 0)
	}
	g.stack = append(g.stack[:0], root)
	for len(g.stack) > 0 {
		next := g.stack[len(g.stack)-1]
		g.stack = g.stack[:len(g.stack)-1]
		if next.split.gain < 0 {
			number := g.tree.makeLeaf(next.id)
			for _, r := range g.rows[next.lo:next.hi] {
				g.leaf[g.bag[r]] = number
			}
		} else {
			g.expand(next)
		}
		g.search.release(next)
		g.free = append(g.free, next)
	}
	return g.tree
}

// expand splits n and searches the best splits of its children.
func (g *grower) expand(n *node) {
	children := g.divide(n)
	var splittable [2]bool
	for c, child := range children {
		splittable[c] = g.splittable(child)
		if splittable[c] {
			g.drawCandidates(child, g.candidates[c])
		}
	}
	if splittable[0] || splittable[1] {
		g.search.assignCells(n, children, splittable)
		g.forEachColumn(n.rows(), func(worker, f int) {
			g.best[0][f], g.best[1][f] = g.search.searchChildren(worker, f, children,
				[2]bool{splittable[0] && g.candidates[0][f], splittable[1] && g.candidates[1][f]})
		})
		for c, child := range children {
			if splittable[c] {
				g.chooseSplit(child, c)
			}
		}
	}
	g.stack = append(g.stack, children[1], children[0])
}

// divide divides the rows of n between two children and returns the children.
func (g *grower) divide(n *node) [2]*node {
	column, threshold := g.data.column(int(n.split.feature)), n.split.threshold
	rows := g.rows[n.lo:n.hi]
	l, r := 0, 0
	for _, row := range rows {
		var left uint8
		if column[g.bag[row]] <= threshold {
			left = 1
		}
		g.goesLeft[row] = left
		rows[l], g.scratch[r] = row, row
		l += int(left)
		r += 1 - int(left)
	}
	copy(rows[l:], g.scratch[:r])
	// The paths of different nodes differ at any depth, except by chance.
	path := n.path * 0x9e3779b97f4a7c15
	a := g.node(n.lo, n.lo+l, n.depth+1, path+1)
	b := g.node(n.lo+l, n.hi, n.depth+1, path+2)
	g.tree.Feature[n.id], g.tree.Threshold[n.id], g.tree.Left[n.id] = n.split.feature, threshold, a.id
	return [2]*node{a, b}
}

// node adds a node with the rows g.rows[lo:hi] to the tree.
func (g *grower) node(lo, hi int, depth int32, path uint64) *node {
	n := new(node)
	if last := len(g.free) - 1; last >= 0 {
		n, g.free = g.free[last], g.free[:last]
	}
	*n = node{lo: lo, hi: hi, depth: depth, path: path, pure: true, split: noSplit}
	n.id = g.tree.add()
	first := g.targets[g.rows[lo]].y
	for _, r := range g.rows[lo:hi] {
		t := g.targets[r]
		n.weight += t.weight
		n.sum += t.y * t.weight
		n.pure = n.pure && t.y == first
	}
	return n
}

// splittable reports whether n has different targets and the limits allow a split of n.
func (g *grower) splittable(n *node) bool {
	return !n.pure && int(n.depth) < g.options.MaxDepth && n.rows() >= g.options.MinSplit && n.rows() >= 2*g.options.MinLeaf
}

// drawCandidates draws the columns that n searches. The draw depends only on the seed and the
// position of the node in the tree.
func (g *grower) drawCandidates(n *node, candidates []bool) {
	all := g.columnsPerNode == g.data.cols
	for f := range candidates {
		candidates[f] = all
	}
	if !all {
		for _, f := range g.shuffled(n)[:g.columnsPerNode] {
			candidates[f] = true
		}
	}
}

// shuffled returns the columns in a random order, which depends only on the seed and n.path.
func (g *grower) shuffled(n *node) []int {
	for f := range g.order {
		g.order[f] = f
	}
	rng := rand.New(rand.NewPCG(g.seed, n.path))
	rng.Shuffle(len(g.order), func(i, j int) { g.order[i], g.order[j] = g.order[j], g.order[i] })
	return g.order
}

// chooseSplit sets the split of n to the first split with the largest gain. c is the index of
// n among its siblings. If no candidate column has a split, chooseSplit searches the other
// columns.
func (g *grower) chooseSplit(n *node, c int) {
	for _, s := range g.best[c] {
		if s.gain > n.split.gain {
			n.split = s
		}
	}
	if n.split.gain >= 0 || g.columnsPerNode == g.data.cols {
		return
	}
	for _, f := range g.shuffled(n)[g.columnsPerNode:] {
		if n.split = g.search.findSplit(0, f, n); n.split.gain >= 0 {
			return
		}
	}
}

// minParallelElements is the smallest number of elements (rows times columns) of a node
// whose columns several goroutines search.
const minParallelElements = 1 << 14

// forEachColumn calls f for every column, in parallel if the node has many rows.
func (g *grower) forEachColumn(rows int, f func(worker, column int)) {
	workers := g.workers
	if rows*g.data.cols < minParallelElements {
		workers = 1
	}
	inParallel(workers, g.data.cols, f)
}
