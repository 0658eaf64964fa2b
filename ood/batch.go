package ood

import (
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Batch holds n rows of all data that methods read. A field with its zero value is absent.
type Batch struct {
	// Features is n×h: the h inputs φ of the last linear layer or, for tree models, the table
	// columns and the predictions. If features have different units, package attach
	// standardises them before methods get them.
	Features blas32.General
	Logits   blas32.General // n×c for c classes or targets; n×1 for a binary classifier with a single logit
	Labels   []int          // class index of each row, in [0,c) for c classes
	// Inputs holds the inputs of the model for n rows. It is nil if they are unknown. When a
	// method that runs the model scores rows, Inputs is an InputBlock.
	Inputs Inputs
	// Layers holds the activations of earlier layers, from the input to the output. Each
	// matrix is n×h_l for a layer of width h_l. Activations at several positions, such as
	// pixels, are averaged.
	Layers []blas32.General
	// Gaps is n×k, with a column for each of the k cells that the model reads from a row. An
	// entry is 1 if the cell is empty and 0 otherwise. Gaps is absent if no cell can be empty.
	Gaps blas32.General
	// Network runs the model on Inputs, for methods that need it. It is nil if there is no
	// model.
	Network Network
	// Hashes, if not nil, holds a hash of the inputs of each row. Package featurize sets it.
	// The hashes identify rows that were used before. Without hashes, features identify them.
	Hashes [][16]byte
}

// mapMatrices returns the batch with f applied to each matrix. The result has the same
// network, but no labels, inputs or hashes.
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

// Slice returns rows i to j−1. Labels, hashes and matrices share memory with b.
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

// Select returns a copy of the rows in picked, in the order of picked. Like Slice, it
// panics if a row does not exist.
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
