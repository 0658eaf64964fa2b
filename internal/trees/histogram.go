package trees

import "math/bits"

// histogram looks at the splits between bins. Large nodes keep their
// histograms: the larger child takes its parent's, less the rows of the
// smaller one.
type histogram struct {
	*grower
	kept    [][]cell // free histograms, cols × binRoom
	scratch [][]cell // per worker, one column, zero between calls
}

// cell sums the rows of a node in one bin.
type cell struct {
	sum          float64
	weight, rows int32
}

const (
	binRoom = 256
	// keptRows is the size of a node from which on its histograms are kept.
	keptRows = 128
)

func newHistogram(g *grower) *histogram {
	h := &histogram{grower: g, scratch: make([][]cell, max(g.workers, 1))}
	for w := range h.scratch {
		h.scratch[w] = make([]cell, binRoom)
	}
	return h
}

// keeps says whether histograms of n are kept. They are not where nodes look
// at some of the columns only.
func (h *histogram) keeps(n *node) bool {
	return n.rows() >= keptRows && h.sampled == h.data.cols
}

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
	return make([]cell, binRoom*h.data.cols)
}

func (h *histogram) done(n *node) {
	if n.cells != nil {
		h.kept = append(h.kept, n.cells)
		n.cells = nil
	}
}

func (h *histogram) column(f int, n *node) []cell { return n.cells[f*binRoom : (f+1)*binRoom] }

func (h *histogram) codes(f int) []uint8 { return h.data.codes[f*h.data.rows : (f+1)*h.data.rows] }

func (h *histogram) root(worker, f int, n *node, search bool) split {
	if !search {
		return noSplit
	}
	return h.find(worker, f, n)
}

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

func (h *histogram) child(worker, f int, _ *node, children [2]*node, _, search [2]bool) [2]split {
	found := [2]split{noSplit, noSplit}
	small, large := children[0], children[1]
	if small.rows() > large.rows() {
		small, large = large, small
	}
	if small.cells != nil {
		h.fill(h.column(f, small), f, small)
	}
	if large.cells != nil {
		h.subtract(h.column(f, large), f, small)
	}
	for c, child := range children {
		switch {
		case !search[c]:
		case child.cells != nil:
			found[c] = h.scan(f, child, h.column(f, child))
		default:
			found[c] = h.sparse(worker, f, child)
		}
	}
	return found
}

func (h *histogram) find(worker, f int, n *node) split {
	if n.cells == nil {
		return h.sparse(worker, f, n)
	}
	h.fill(h.column(f, n), f, n)
	return h.scan(f, n, h.column(f, n))
}

func (h *histogram) fill(cells []cell, f int, n *node) {
	clear(cells)
	h.add(cells, f, n)
}

func (h *histogram) add(cells []cell, f int, n *node) {
	cells = cells[:binRoom]
	codes := h.codes(f)
	for _, r := range h.rows[n.lo:n.hi] {
		t := h.targets[r]
		c := &cells[codes[h.bag[r]]]
		c.sum += t.y * t.weight
		c.weight += int32(t.weight)
		c.rows++
	}
}

func (h *histogram) subtract(cells []cell, f int, n *node) {
	cells = cells[:binRoom]
	codes := h.codes(f)
	for _, r := range h.rows[n.lo:n.hi] {
		t := h.targets[r]
		c := &cells[codes[h.bag[r]]]
		c.sum -= t.y * t.weight
		c.weight -= int32(t.weight)
		c.rows--
	}
}

// cursor goes through the bins of a node from left to right.
type cursor struct {
	mean, whole float64
	rows, least int
	sum, weight float64
	passed      int
	last        int // bin, −1 before the first
	gain        float64
	below, from int // the bins on both sides of the best split
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

// sparse is fill and scan for a node that occupies few bins.
func (h *histogram) sparse(worker, f int, n *node) split {
	cells := h.scratch[worker]
	var occupied [binRoom / 64]uint64
	codes := h.codes(f)
	for _, r := range h.rows[n.lo:n.hi] {
		b := codes[h.bag[r]]
		occupied[b/64] |= 1 << (b % 64)
	}
	h.add(cells, f, n)
	c := h.cursor(n)
	for i, word := range occupied {
		for ; word != 0; word &= word - 1 {
			b := i*64 + bits.TrailingZeros64(word)
			c.pass(b, &cells[b])
			cells[b] = cell{}
		}
	}
	return h.split(&c, f)
}
