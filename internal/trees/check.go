package trees

import (
	"errors"
	"fmt"
	"slices"
)

// Check says what is wrong with a tree for rows of cols columns that comes
// from outside. It sets Leaves.
func (t *Tree) Check(cols int) error {
	n := len(t.Feature)
	if n == 0 || len(t.Threshold) != n || len(t.Left) != n {
		return fmt.Errorf("a tree of %d features, %d thresholds and %d children", n, len(t.Threshold), len(t.Left))
	}
	parents, leaves := 0, make([]bool, (n+1)/2)
	t.Leaves = 0
	for i, f := range t.Feature {
		l := int(t.Left[i])
		switch {
		case f < -1 || int(f) >= cols:
			return fmt.Errorf("node %d looks at column %d of %d", i, f, cols)
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
	// Numbers are distinct and below ⌈n/2⌉, so with as many leaves they are all.
	if t.Leaves != parents+1 {
		return fmt.Errorf("a tree of %d splits has %d leaves", parents, t.Leaves)
	}
	return nil
}

// NewForest is a forest from its parts, for rows of cols columns.
func NewForest(cols int, values []float32, bagged []Bagged) (*Forest, error) {
	if len(values) == 0 || len(bagged) == 0 {
		return nil, errors.New("a forest without targets or trees")
	}
	for i := 1; i < len(values); i++ {
		if !(values[i-1] < values[i]) {
			return nil, fmt.Errorf("targets %d and %d of a forest are out of order", i-1, i)
		}
	}
	f := &Forest{Values: values, Trees: bagged}
	for k := range bagged {
		b := &bagged[k]
		if err := b.Check(cols); err != nil {
			return nil, fmt.Errorf("tree %d: %w", k, err)
		}
		if len(b.Start) != b.Leaves+1 || b.Start[0] != 0 || b.Start[b.Leaves] != uint32(len(b.Members)) {
			return nil, fmt.Errorf("tree %d: its leaves do not divide its %d members", k, len(b.Members))
		}
		for l := range b.Leaves {
			lo, hi := b.Start[l], b.Start[l+1]
			if lo >= hi || hi > uint32(len(b.Members)) {
				return nil, fmt.Errorf("tree %d: leaf %d has members %d to %d of %d", k, l, lo, hi, len(b.Members))
			}
			if in := b.Members[lo:hi]; !slices.IsSorted(in) || int(in[len(in)-1]) >= len(values) {
				return nil, fmt.Errorf("tree %d: the members of leaf %d are out of order or range", k, l)
			}
		}
	}
	f.prepare()
	return f, nil
}
