package trees

// exact looks at every split. It keeps each node's elements sorted by every
// column: sorted once for all trees, they are divided stably.
type exact struct {
	*grower
	lists []element // cols × rows in the bag
	whole bool      // all rows are in the bag: the root's lists are the data's
	// position is the place of each row in the bag.
	position []int32
	swap     [][]element // per worker
}

func newExact(g *grower) *exact {
	e := &exact{grower: g, position: make([]int32, g.data.rows), swap: make([][]element, max(g.workers, 1))}
	e.lists = make([]element, len(g.data.sorted))
	return e
}

func (e *exact) begin(*node) {
	e.whole = len(e.bag) == e.data.rows
	if e.whole {
		return
	}
	for i := range e.position {
		e.position[i] = -1
	}
	for p, i := range e.bag {
		e.position[i] = int32(p)
	}
}

// list is the place of column f of node n.
func (e *exact) list(f int, n *node) []element {
	at := f * len(e.bag)
	return e.lists[at+n.lo : at+n.hi]
}

func (e *exact) root(_, f int, n *node, search bool) split {
	all := e.data.sorted[f*e.data.rows : (f+1)*e.data.rows]
	if e.whole {
		if !search {
			return noSplit
		}
		return e.scan(f, n, all)
	}
	list := e.list(f, n)
	k := 0
	for _, x := range all {
		if p := e.position[x.row]; p >= 0 {
			list[k] = element{x.x, p}
			k++
		}
	}
	if !search {
		return noSplit
	}
	return e.scan(f, n, list)
}

func (e *exact) divided(*node, [2]*node, [2]bool) {}

func (e *exact) child(worker, f int, n *node, children [2]*node, live, search [2]bool) [2]split {
	to := e.list(f, n)
	from := to
	if e.whole && n.depth == 0 {
		from = e.data.sorted[f*e.data.rows : (f+1)*e.data.rows]
	}
	if len(e.swap[worker]) < len(to) {
		e.swap[worker] = make([]element, len(to))
	}
	swap := e.swap[worker]
	left := e.left
	l, r := 0, 0
	for _, x := range from {
		s := int(left[x.row])
		to[l], swap[r] = x, x
		l += s
		r += 1 - s
	}
	if live[1] {
		copy(to[l:], swap[:r])
	}
	found := [2]split{noSplit, noSplit}
	for c, child := range children {
		if search[c] {
			found[c] = e.find(worker, f, child)
		}
	}
	return found
}

func (e *exact) find(_, f int, n *node) split {
	// The root's lists are not copied where they are the data's.
	if e.whole && n.depth == 0 {
		return e.scan(f, n, e.data.sorted[f*e.data.rows:(f+1)*e.data.rows])
	}
	return e.scan(f, n, e.list(f, n))
}

func (e *exact) done(*node) {}

// scan finds the best split of the sorted elements of node n. The gain of a
// split is the decrease of the sum of squares over the node's weight: with d
// the left sum less what it would be at the node's mean, d²/(wₗwᵣ). Friedman's
// improvement ranks splits alike.
func (e *exact) scan(f int, n *node, list []element) split {
	best := noSplit
	last := len(list) - 1
	if list[0].x == list[last].x {
		return best
	}
	targets := e.targets
	mean := n.sum / n.weight
	var sum, weight float64
	smallest := e.o.MinLeaf
	for _, x := range list[:smallest-1] {
		t := targets[x.row]
		sum += t.y * t.weight
		weight += t.weight
	}
	at := -1
	gain := best.gain
	end := len(list) - smallest
	for i := smallest - 1; i < end; i++ {
		x := list[i]
		t := targets[x.row]
		sum += t.y * t.weight
		weight += t.weight
		if x.x == list[i+1].x {
			continue
		}
		d := sum - weight*mean
		if v := d * d / (weight * (n.weight - weight)); v > gain {
			gain, at = v, i
		}
	}
	if at >= 0 {
		best = split{gain, int32(f), between(list[at].x, list[at+1].x)}
	}
	return best
}
