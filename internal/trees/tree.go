package trees

// Tree is a binary tree of axis-parallel splits in flat arrays, one entry per
// node, the root first.
type Tree struct {
	// Feature is the column that a node looks at, −1 at a leaf.
	Feature []int32
	// Threshold sends rows whose value is at most this to the left.
	Threshold []float32
	// Left is the left child of a node; the right child follows it. At a leaf
	// it is the leaf's number.
	Left []int32
	// Rows is the number of distinct training rows in a node.
	Rows   []int32
	Leaves int
}

// Leaf is the number of the leaf that row x falls in. NaN goes to the right.
func (t *Tree) Leaf(x []float32) int32 {
	feature, threshold, left := t.Feature, t.Threshold[:len(t.Feature)], t.Left[:len(t.Feature)]
	i := int32(0)
	for {
		f := feature[i]
		if f < 0 {
			return left[i]
		}
		// Without a jump: which side a row goes to can't be predicted.
		var right int32
		if !(x[f] <= threshold[i]) {
			right = 1
		}
		i = left[i] + right
	}
}

// Prune cuts t back to the tree that would have grown with a smaller maximal
// depth (0 is no limit) and a larger number of rows to be split. of[l] is the
// new leaf that holds the old leaf l.
func (t *Tree) Prune(maxDepth, minSplit int) (pruned Tree, of []int32) {
	of = make([]int32, t.Leaves)
	type pending struct {
		from, to, depth int32
		into            int32 // the new leaf that holds from, −1 outside of one
	}
	pruned.add(t.Rows[0])
	stack := []pending{{into: -1}}
	for len(stack) > 0 {
		p := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		f := t.Feature[p.from]
		if p.into < 0 && (f < 0 || maxDepth > 0 && int(p.depth) >= maxDepth || int(t.Rows[p.from]) < minSplit) {
			p.into = pruned.seal(p.to)
		}
		if f < 0 {
			of[t.Left[p.from]] = p.into
			continue
		}
		from := t.Left[p.from]
		l := pending{from, 0, p.depth + 1, p.into}
		r := pending{from + 1, 0, p.depth + 1, p.into}
		if p.into < 0 {
			pruned.Feature[p.to], pruned.Threshold[p.to] = f, t.Threshold[p.from]
			l.to = pruned.add(t.Rows[from])
			r.to = pruned.add(t.Rows[from+1])
			pruned.Left[p.to] = l.to
		}
		stack = append(stack, r, l)
	}
	return pruned, of
}

// add appends a node of so many rows.
func (t *Tree) add(rows int32) int32 {
	t.Feature = append(t.Feature, -1)
	t.Threshold = append(t.Threshold, 0)
	t.Left = append(t.Left, -1)
	t.Rows = append(t.Rows, rows)
	return int32(len(t.Feature) - 1)
}

// seal makes node i a leaf and returns its number.
func (t *Tree) seal(i int32) int32 {
	t.Left[i] = int32(t.Leaves)
	t.Leaves++
	return t.Left[i]
}
