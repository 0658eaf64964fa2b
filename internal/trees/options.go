package trees

import (
	"fmt"
	"math"
)

// Options say when a tree stops growing. The zero value grows until leaves are
// pure.
type Options struct {
	MaxDepth int // of a leaf, the root has 0; 0 is no limit
	MinSplit int // rows that a node needs to be split; 0 is 2
	MinLeaf  int // rows that every leaf has; 0 is 1
	// MaxFeatures is the share of the columns, in (0,1], that a node looks at,
	// drawn afresh for every node; 0 is all of them. Where none of these can
	// be split, the node looks on.
	MaxFeatures float64
}

func (o Options) withDefaults() (Options, error) {
	if o.MinSplit == 0 {
		o.MinSplit = 2
	}
	if o.MinLeaf == 0 {
		o.MinLeaf = 1
	}
	if o.MaxFeatures == 0 {
		o.MaxFeatures = 1
	}
	switch {
	case o.MaxDepth < 0:
		return o, fmt.Errorf("the depth of a tree must be at least 1, or 0 for no limit, not %d", o.MaxDepth)
	case o.MinSplit < 2:
		return o, fmt.Errorf("a split needs at least 2 rows, not %d", o.MinSplit)
	case o.MinLeaf < 1:
		return o, fmt.Errorf("a leaf needs at least 1 row, not %d", o.MinLeaf)
	case !(o.MaxFeatures > 0 && o.MaxFeatures <= 1):
		return o, fmt.Errorf("the share of features per split must be in (0,1], not %v", o.MaxFeatures)
	}
	if o.MaxDepth == 0 {
		o.MaxDepth = math.MaxInt32
	}
	return o, nil
}
