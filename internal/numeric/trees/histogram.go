package trees

import (
	"math/bits"
	"slices"
)

// histogram searches the splits between bins. Large nodes keep their histograms: the larger
// child then takes its parent's minus the rows of the smaller child.
type histogram struct {
	*grower
	room     int        // largest number of bins of a column
	kept     [][]cell   // unused histograms, cols × room
	scratch  [][]cell   // by worker: one column, zero between calls
	occupied [][]uint64 // by worker: bit set of the occupied bins of a column
	few      [][]uint16 // by worker: the occupied bins, if they are few
}

// cell sums the rows of a node in one bin.
type cell struct {
	sum          float64
	weight, rows int32
}

// keptRows is the number of rows from which on a node keeps its histograms.
const keptRows = 128

func newHistogram(g *grower) *histogram {
	workers := max(g.workers, 1)
	h := &histogram{grower: g, scratch: make([][]cell, workers), occupied: make([][]uint64, workers), few: make([][]uint16, workers)}
	for _, b := range g.data.bins {
		h.room = max(h.room, len(b))
	}
	for w := range workers {
		h.scratch[w], h.occupied[w] = make([]cell, h.room), make([]uint64, (h.room+63)/64)
		h.few[w] = make([]uint16, h.room/256)
	}
	return h
}

// keeps reports whether the histograms of n are kept. They are not kept if nodes try only some
// columns, or if there are as many bins as rows.
func (h *histogram) keeps(n *node) bool {
	return n.rows() >= keptRows && h.sampled == h.data.cols && h.room <= maxBins
}

// begin prepares for a tree on the rows in the bag.
func (h *histogram) begin(root *node) {
	if h.keeps(root) {
		root.cells = h.take()
	}
}

func (h *histogram) take() []cell {
	if last := len(h.kept) - 1; last >= 0 {
		c := h.kept[last]
		h.kept = h.kept[:last]
		return c
	}
	return make([]cell, h.room*h.data.cols)
}

// done releases the histograms of n.
func (h *histogram) done(n *node) {
	if n.cells != nil {
		h.kept = append(h.kept, n.cells)
		n.cells = nil
	}
}

func (h *histogram) column(f int, n *node) []cell { return n.cells[f*h.room : (f+1)*h.room] }

func (h *histogram) codes(f int) []uint16 { return h.data.codes[f*h.data.rows : (f+1)*h.data.rows] }

// divided is called once after n was divided into children, before their columns are searched.
func (h *histogram) divided(n *node, children [2]*node, live [2]bool) {
	small, large := 0, 1
	if children[0].rows() > children[1].rows() {
		small, large = 1, 0
	}
	if live[large] && n.cells != nil && h.keeps(children[large]) {
		children[large].cells, n.cells = n.cells, nil
	}
	if live[small] && h.keeps(children[small]) {
		children[small].cells = h.take()
	}
}

// among searches column f in the children for which search is set. Calls for different columns
// may run concurrently on different workers.
func (h *histogram) among(worker, f int, children [2]*node, search [2]bool) (left, right split) {
	small, large := children[0], children[1]
	if small.rows() > large.rows() {
		small, large = large, small
	}
	if small.cells != nil {
		clear(h.column(f, small))
		h.add(h.column(f, small), f, small, 1)
	}
	if large.cells != nil {
		h.add(h.column(f, large), f, small, -1)
	}
	found := [2]split{noSplit, noSplit}
	for c, child := range children {
		switch {
		case !search[c]:
		case child.cells != nil:
			found[c] = h.scan(f, child, h.column(f, child))
		default:
			found[c] = h.sparse(worker, f, child)
		}
	}
	return found[0], found[1]
}

// find searches column f of a node.
func (h *histogram) find(worker, f int, n *node) split {
	if n.cells == nil {
		return h.sparse(worker, f, n)
	}
	clear(h.column(f, n))
	h.add(h.column(f, n), f, n, 1)
	return h.scan(f, n, h.column(f, n))
}

// add adds the rows of n, each counted times times.
func (h *histogram) add(cells []cell, f int, n *node, times int32) {
	codes := h.codes(f)
	for _, r := range h.rows[n.lo:n.hi] {
		t := h.targets[r]
		c := &cells[codes[h.bag[r]]]
		c.sum += float64(times) * t.y * t.weight
		c.weight += times * int32(t.weight)
		c.rows += times
	}
}

// cursor scans the bins of a node from left to right.
type cursor struct {
	mean, whole float64
	rows, least int
	sum, weight float64
	passed      int
	last        int // the last bin, −1 before the first
	gain        float64
	below, from int // bins on both sides of the best split
}

func (h *histogram) cursor(n *node) cursor {
	return cursor{mean: n.sum / n.weight, whole: n.weight, rows: n.rows(), least: h.o.MinLeaf, last: -1, gain: -1}
}

func (c *cursor) pass(b int, x *cell) {
	if c.passed >= c.least && c.rows-c.passed >= c.least {
		d := c.sum - c.weight*c.mean
		if v := d * d / (c.weight * (c.whole - c.weight)); v > c.gain {
			c.gain, c.below, c.from = v, c.last, b
		}
	}
	c.sum += x.sum
	c.weight += float64(x.weight)
	c.passed += int(x.rows)
	c.last = b
}

func (h *histogram) split(c *cursor, f int) split {
	if c.gain < 0 {
		return noSplit
	}
	bins := h.data.bins[f]
	return split{c.gain, int32(f), between(bins[c.below].hi, bins[c.from].lo)}
}

func (h *histogram) scan(f int, n *node, cells []cell) split {
	c := h.cursor(n)
	for b := range h.data.bins[f] {
		if x := &cells[b]; x.rows != 0 {
			c.pass(b, x)
		}
	}
	return h.split(&c, f)
}

// sparse fills and scans a node that occupies few bins.
func (h *histogram) sparse(worker, f int, n *node) split {
	cells, codes, c := h.scratch[worker], h.codes(f), h.cursor(n)
	h.add(cells, f, n, 1)
	visit := func(b int) {
		if cells[b].rows != 0 {
			c.pass(b, &cells[b])
			cells[b] = cell{}
		}
	}
	if n.rows() < len(h.data.bins[f])/256 {
		bins := h.few[worker][:0]
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
