package trees

import (
	"math/bits"
	"slices"
)

// histogram searches the splits between bins. Large nodes keep their histograms, so that a
// histogram of the larger child can be computed quickly: it is the histogram of the parent
// minus the rows of the smaller child.
type histogram struct {
	*grower
	columnBins int        // largest number of bins of a column
	unused     [][]cell   // histograms for reuse, with columnBins cells for each column
	cells      [][]cell   // for each worker, cells of one column, which are zero between calls
	occupied   [][]uint64 // for each worker, a bit set of the occupied bins of a column
	fewBins    [][]uint16 // for each worker, the occupied bins if they are few
}

// cell holds the sums over the rows of a node in one bin.
type cell struct {
	sum          float64
	weight, rows int32
}

// minKeptRows is the smallest number of rows of a node that keeps its histograms.
const minKeptRows = 128

func newHistogram(g *grower) *histogram {
	workers := max(g.workers, 1)
	h := &histogram{grower: g, cells: make([][]cell, workers), occupied: make([][]uint64, workers), fewBins: make([][]uint16, workers)}
	for _, b := range g.data.bins {
		h.columnBins = max(h.columnBins, len(b))
	}
	for w := range workers {
		h.cells[w], h.occupied[w] = make([]cell, h.columnBins), make([]uint64, (h.columnBins+63)/64)
		h.fewBins[w] = make([]uint16, h.columnBins/256)
	}
	return h
}

// keepsCells reports whether n keeps its histograms. Small nodes do not. No node keeps them
// if nodes search only some columns, or if a column has more than maxBins bins.
func (h *histogram) keepsCells(n *node) bool {
	return n.rows() >= minKeptRows && h.columnsPerNode == h.data.cols && h.columnBins <= maxBins
}

// beginTree prepares for a new tree with this root.
func (h *histogram) beginTree(root *node) {
	if h.keepsCells(root) {
		root.cells = h.allocate()
	}
}

// allocate returns histograms of all columns, with arbitrary values.
func (h *histogram) allocate() []cell {
	if last := len(h.unused) - 1; last >= 0 {
		c := h.unused[last]
		h.unused = h.unused[:last]
		return c
	}
	return make([]cell, h.columnBins*h.data.cols)
}

// release makes the histograms of n available for reuse.
func (h *histogram) release(n *node) {
	if n.cells != nil {
		h.unused = append(h.unused, n.cells)
		n.cells = nil
	}
}

// column returns the histogram of column f of n.
func (h *histogram) column(f int, n *node) []cell {
	return n.cells[f*h.columnBins : (f+1)*h.columnBins]
}

// codes returns the bin of each row in column f.
func (h *histogram) codes(f int) []uint16 { return h.data.codes[f*h.data.rows : (f+1)*h.data.rows] }

// assignCells gives the children of n their histograms, before the columns of the children
// are searched. The larger child takes over the histograms of n. A child that is small or
// will not be searched gets none. splittable reports which children will be searched.
func (h *histogram) assignCells(n *node, children [2]*node, splittable [2]bool) {
	small, large := 0, 1
	if children[0].rows() > children[1].rows() {
		small, large = 1, 0
	}
	if splittable[large] && n.cells != nil && h.keepsCells(children[large]) {
		children[large].cells, n.cells = n.cells, nil
	}
	if splittable[small] && h.keepsCells(children[small]) {
		children[small].cells = h.allocate()
	}
}

// searchChildren searches column f of the children for which search is set. Calls for
// different columns may run concurrently on different workers.
func (h *histogram) searchChildren(worker, f int, children [2]*node, search [2]bool) (left, right split) {
	small, large := children[0], children[1]
	if small.rows() > large.rows() {
		small, large = large, small
	}
	if small.cells != nil {
		clear(h.column(f, small))
		h.addRows(h.column(f, small), f, small, 1)
	}
	if large.cells != nil {
		h.addRows(h.column(f, large), f, small, -1)
	}
	splits := [2]split{noSplit, noSplit}
	for c, child := range children {
		switch {
		case !search[c]:
		case child.cells != nil:
			splits[c] = h.searchDense(f, child, h.column(f, child))
		default:
			splits[c] = h.searchSparse(worker, f, child)
		}
	}
	return splits[0], splits[1]
}

// findSplit searches column f of n.
func (h *histogram) findSplit(worker, f int, n *node) split {
	if n.cells == nil {
		return h.searchSparse(worker, f, n)
	}
	clear(h.column(f, n))
	h.addRows(h.column(f, n), f, n, 1)
	return h.searchDense(f, n, h.column(f, n))
}

// addRows adds the rows of n to a histogram of column f. times is 1, or −1 to subtract the
// rows.
func (h *histogram) addRows(cells []cell, f int, n *node, times int32) {
	codes := h.codes(f)
	for _, r := range h.rows[n.lo:n.hi] {
		t := h.targets[r]
		c := &cells[codes[h.bag[r]]]
		c.sum += float64(times) * t.y * t.weight
		c.weight += times * int32(t.weight)
		c.rows += times
	}
}

// cursor visits the bins of a node in increasing order and finds the best split.
type cursor struct {
	mean, totalWeight float64 // mean target of all rows, and their total weight
	rows, minLeaf     int
	sum, weight       float64 // sums over the visited bins
	visitedRows       int
	last              int // last visited bin, or −1 before the first
	gain              float64
	lower, upper      int // bins below and above the best split
}

func (h *histogram) cursor(n *node) cursor {
	return cursor{mean: n.sum / n.weight, totalWeight: n.weight, rows: n.rows(), minLeaf: h.options.MinLeaf, last: -1, gain: -1}
}

// visit moves the cursor over bin b with cell x.
func (c *cursor) visit(b int, x *cell) {
	if c.visitedRows >= c.minLeaf && c.rows-c.visitedRows >= c.minLeaf {
		d := c.sum - c.weight*c.mean
		if v := d * d / (c.weight * (c.totalWeight - c.weight)); v > c.gain {
			c.gain, c.lower, c.upper = v, c.last, b
		}
	}
	c.sum += x.sum
	c.weight += float64(x.weight)
	c.visitedRows += int(x.rows)
	c.last = b
}

// split returns the best split that the cursor found in column f.
func (h *histogram) split(c *cursor, f int) split {
	if c.gain < 0 {
		return noSplit
	}
	bins := h.data.bins[f]
	return split{c.gain, int32(f), midpoint(bins[c.lower].hi, bins[c.upper].lo)}
}

// searchDense searches column f of n in a complete histogram.
func (h *histogram) searchDense(f int, n *node, cells []cell) split {
	c := h.cursor(n)
	for b := range h.data.bins[f] {
		if x := &cells[b]; x.rows != 0 {
			c.visit(b, x)
		}
	}
	return h.split(&c, f)
}

// searchSparse searches column f of n, which has rows in only a few bins.
func (h *histogram) searchSparse(worker, f int, n *node) split {
	cells, codes, c := h.cells[worker], h.codes(f), h.cursor(n)
	h.addRows(cells, f, n, 1)
	visit := func(b int) {
		if cells[b].rows != 0 {
			c.visit(b, &cells[b])
			cells[b] = cell{}
		}
	}
	if n.rows() < len(h.data.bins[f])/256 {
		bins := h.fewBins[worker][:0]
		for _, r := range h.rows[n.lo:n.hi] {
			bins = append(bins, codes[h.bag[r]])
		}
		slices.Sort(bins)
		for _, b := range bins {
			visit(int(b))
		}
		return h.split(&c, f)
	}
	occupied := h.occupied[worker][:(len(h.data.bins[f])+63)/64]
	clear(occupied)
	for _, r := range h.rows[n.lo:n.hi] {
		b := codes[h.bag[r]]
		occupied[b/64] |= 1 << (b % 64)
	}
	for i, word := range occupied {
		for ; word != 0; word &= word - 1 {
			visit(i*64 + bits.TrailingZeros64(word))
		}
	}
	return h.split(&c, f)
}
