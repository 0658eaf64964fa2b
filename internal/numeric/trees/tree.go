package trees

import (
	"fmt"
	"slices"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Tree is a binary tree of axis-parallel splits. Its arrays have one entry for each node, with
// the root first.
type Tree struct {
	// Feature is the column that a node compares with Threshold, or −1 at a leaf.
	Feature []int32
	// Threshold is the largest value in column Feature with which a row goes to the left
	// child.
	Threshold []float32
	// Left is the left child of a node, and the right child follows it. At a leaf, Left is the
	// number of the leaf.
	Left   []int32
	Leaves int
}

// Trees is a list of trees. Its saved state combines all trees in a few arrays.
type Trees []Tree

// packedTrees holds the nodes of all trees, one tree after another.
type packedTrees struct {
	Nodes     []int     `state:"nodes[trees],least=1"` // number of nodes of each tree
	Feature   []int32   `state:"feature[nodes],least=-1"`
	Threshold []float32 `state:"threshold[nodes]"`
	Left      []int32   `state:"left[nodes],least=0"`
}

// State implements rows.Coder.
func (t Trees) State() rows.State {
	var p packedTrees
	for _, tree := range t {
		p.Nodes = append(p.Nodes, len(tree.Feature))
		p.Feature, p.Left = append(p.Feature, tree.Feature...), append(p.Left, tree.Left...)
		p.Threshold = append(p.Threshold, tree.Threshold...)
	}
	return rows.Save(p)
}

// Restore implements rows.Coder.
func (t *Trees) Restore(s rows.State) error {
	var p packedTrees
	if err := rows.Restore(&p, s, nil); err != nil {
		return err
	}
	*t = nil
	lo := 0
	for k, n := range p.Nodes {
		if n > len(p.Feature)-lo {
			return fmt.Errorf("%d trees have more nodes than %d", len(p.Nodes), len(p.Feature))
		}
		hi := lo + n
		tree := Tree{Feature: p.Feature[lo:hi:hi], Threshold: p.Threshold[lo:hi:hi], Left: p.Left[lo:hi:hi]}
		if err := tree.check(); err != nil {
			return fmt.Errorf("tree %d: %w", k, err)
		}
		*t, lo = append(*t, tree), hi
	}
	if lo < len(p.Feature) {
		return fmt.Errorf("%d trees have %d nodes of %d", len(p.Nodes), lo, len(p.Feature))
	}
	return nil
}

// Fit checks trees from a file. It returns an error if a tree tests a column that rows with
// this number of columns lack, or if the number of leaves is not leafValues.
func (t Trees) Fit(columns, leafValues int) error {
	leaves := 0
	for k, tree := range t {
		leaves += tree.Leaves
		if f := slices.Max(tree.Feature); int(f) >= columns {
			return fmt.Errorf("tree %d looks at column %d of %d", k, f, columns)
		}
	}
	if leaves != leafValues {
		return fmt.Errorf("%d leaves, and what is kept of %d", leaves, leafValues)
	}
	return nil
}

// check returns an error if a tree from a file is malformed. It sets Leaves.
func (t *Tree) check() error {
	n := len(t.Feature)
	parents, leaves := 0, make([]bool, (n+1)/2)
	t.Leaves = 0
	for i, f := range t.Feature {
		l := int(t.Left[i])
		switch {
		case f >= 0 && (l <= i || l+1 >= n):
			return fmt.Errorf("node %d of %d has the child %d", i, n, l)
		case f >= 0:
			parents++
		case l < 0 || l >= len(leaves) || leaves[l]:
			return fmt.Errorf("node %d has the leaf number %d, which is out of range or taken", i, l)
		default:
			leaves[l] = true
			t.Leaves++
		}
	}
	// Leaf numbers are distinct and below ⌈n/2⌉ for n nodes. If there are ⌈n/2⌉ leaves, all
	// numbers are used.
	if t.Leaves != parents+1 {
		return fmt.Errorf("a tree of %d splits has %d leaves", parents, t.Leaves)
	}
	return nil
}

// Leaf returns the number of the leaf that row x reaches. NaN goes to the right child.
func (t *Tree) Leaf(x []float32) int32 {
	feature, threshold, left := t.Feature, t.Threshold[:len(t.Feature)], t.Left[:len(t.Feature)]
	i := int32(0)
	for {
		f := feature[i]
		if f < 0 {
			return left[i]
		}
		// Branches would be slow here, because the processor cannot predict the direction of a
		// row.
		var right int32
		if !(x[f] <= threshold[i]) {
			right = 1
		}
		i = left[i] + right
	}
}

// add appends a node and returns its index.
func (t *Tree) add() int32 {
	t.Feature = append(t.Feature, -1)
	t.Threshold = append(t.Threshold, 0)
	t.Left = append(t.Left, -1)
	return int32(len(t.Feature) - 1)
}

// makeLeaf makes node i a leaf and returns the number of the leaf.
func (t *Tree) makeLeaf(i int32) int32 {
	t.Left[i] = int32(t.Leaves)
	t.Leaves++
	return t.Left[i]
}
