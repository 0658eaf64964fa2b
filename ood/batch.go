package ood

import (
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Batch is n rows of everything that methods read. The zero value of a field means that it is
// absent.
type Batch struct {
	Features blas32.General // n×h, the input φ of the last linear layer
	Logits   blas32.General // n×c
	Labels   []int          // n class indices in [0,c)
	// Inputs holds n rows in the form that the network takes, or is nil. A method that runs
	// the network is scored on an InputBlock.
	Inputs Inputs
	// Layers holds the activations of earlier layers, from the input on, each n×h_l: averaged
	// over positions if there are any.
	Layers []blas32.General
	// Gaps is n×k, with a column for each cell that the network reads from a row: 1 if the
	// cell is empty, 0 if not. It is absent if no cell can be empty.
	Gaps blas32.General
	// Network runs on Inputs, for methods that need it, or is nil.
	Network Network
	// Hashes, if not nil, identify rows by their inputs: rows with equal inputs have equal
	// hashes. Package featurize sets them. Without hashes, rows are compared by their
	// features.
	Hashes [][16]byte
}

// mapMatrices returns a batch with f applied to each matrix. It keeps the network, and drops
// labels, inputs and hashes.
func (b Batch) mapMatrices(f func(blas32.General) blas32.General) Batch {
	s := Batch{Features: f(b.Features), Logits: f(b.Logits), Layers: slices.Clone(b.Layers), Gaps: f(b.Gaps), Network: b.Network}
	for i, l := range s.Layers {
		s.Layers[i] = f(l)
	}
	return s
}

// Len returns the number of rows.
func (b Batch) Len() int {
	switch {
	case b.Features.Cols != 0:
		return b.Features.Rows
	case b.Logits.Cols != 0:
		return b.Logits.Rows
	case len(b.Layers) > 0:
		return b.Layers[0].Rows
	case b.Labels == nil && b.Inputs != nil:
		return b.Inputs.Len()
	}
	return len(b.Labels)
}

// Slice returns rows i to j−1. Labels and matrices share memory with b, and Inputs are
// selected.
func (b Batch) Slice(i, j int) Batch {
	s := b.mapMatrices(func(m blas32.General) blas32.General { return rows.Slice(m, i, j) })
	if b.Labels != nil {
		s.Labels = b.Labels[i:j]
	}
	if b.Hashes != nil {
		s.Hashes = b.Hashes[i:j]
	}
	if b.Inputs != nil {
		picked := make([]int, j-i)
		for k := range picked {
			picked[k] = i + k
		}
		s.Inputs = b.Inputs.Select(picked)
	}
	return s
}

// Select copies rows, in the given order. Select and Slice panic for rows outside of the
// batch.
func (b Batch) Select(picked []int) Batch {
	s := b.mapMatrices(func(m blas32.General) blas32.General { return rows.Select(m, picked) })
	if b.Labels != nil {
		s.Labels = make([]int, len(picked))
		for i, r := range picked {
			s.Labels[i] = b.Labels[r]
		}
	}
	if b.Hashes != nil {
		s.Hashes = make([][16]byte, len(picked))
		for i, r := range picked {
			s.Hashes[i] = b.Hashes[r]
		}
	}
	if b.Inputs != nil {
		s.Inputs = b.Inputs.Select(picked)
	}
	return s
}
