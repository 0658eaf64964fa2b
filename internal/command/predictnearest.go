package command

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/duplicates"
)

// maxNeighbours is the largest number of fit rows that predict names for each row.
const maxNeighbours = 20

// fittedRows finds the fit rows that are nearest to a row. Distances are between features that
// are scaled by their standard deviations, as in audits.
type fittedRows struct {
	count     int // number of nearest rows to find
	names     []string
	set       *inputs.Set // nil for precomputed features
	reference *duplicates.Reference
	found     [][]int // nearest fit rows of each row that was added but not taken yet
}

// readFitted runs the model on the rows of --fitted. It returns nil without --fitted.
func (f *predictFlags) readFitted(ctx context.Context, m *openedBundle) (*fittedRows, error) {
	if f.fitted == "" {
		return nil, nil
	}
	if err := m.OpenNetwork(ctx); err != nil { // it changes m.Inputs
		return nil, err
	}
	// These rows need no identifiers, labels, groups or targets.
	options, classes := m.Inputs, m.Classes
	m.Inputs.ID, m.Inputs.Groups, m.Inputs.Labels, m.Inputs.NoTargets, m.Inputs.TargetOptional, m.Classes = "", "", false, true, true, nil
	defer func() {
		m.Inputs.ID, m.Inputs.Groups, m.Inputs.Labels, m.Inputs.NoTargets, m.Inputs.TargetOptional, m.Classes = options.ID, options.Groups, options.Labels, options.NoTargets, options.TargetOptional, classes
	}()
	opened, err := m.OpenRows(ctx, f.fitted, "", inputs.Slice{})
	if err != nil {
		return nil, err
	}
	p := newProgress(m.stderr, "fitted")
	defer p.end()
	n := &fittedRows{count: f.neighbours, set: opened.Set}
	var all blas32.General
	for block, err := range opened.Blocks(false) {
		if err != nil {
			return nil, inputs.InFile(f.fitted, err)
		}
		x := block.Features
		for i := range x.Rows {
			n.names = append(n.names, fmt.Sprint(opened.Name(len(n.names))))
			all.Data = append(all.Data, rows.Row(x, i)...)
		}
		all.Rows, all.Cols, all.Stride = all.Rows+x.Rows, x.Cols, x.Cols
		p.set(all.Rows, opened.N)
	}
	if n.reference, err = duplicates.New(ctx, all); err != nil {
		return nil, inputs.InFile(f.fitted, err)
	}
	return n, nil
}

// add finds the nearest fit rows of a block.
func (n *fittedRows) add(ctx context.Context, block attach.Rows) error {
	list, err := n.reference.Nearest(ctx, block.Features, n.count)
	n.found = append(n.found, list...)
	return err
}

// take returns the nearest fit rows of the next row, and their names.
func (n *fittedRows) take() (nearest []int, names []string) {
	nearest, n.found = n.found[0], n.found[1:]
	names = []string{}
	for _, i := range nearest {
		names = append(names, n.names[i])
	}
	return nearest, names
}
