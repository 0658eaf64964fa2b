package ood

import (
	"fmt"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/parts"
	"github.com/attach-uncertainty/attach/internal/rows"
)

// Batch is n rows as methods see them. What is absent is the zero value.
type Batch struct {
	Features blas32.General // n×h, the input φ of the last linear layer
	Logits   blas32.General // n×c
	Labels   []int          // n class indices in [0,c)
	Inputs   Inputs         // n rows as the network takes them, or nil
	// Layers are activations of earlier layers, from the input on, each n×h_l:
	// averaged over positions where they have any.
	Layers []blas32.General
	// Cache, if not nil, keeps what several fits or scorers make of these rows, by
	// keys of the caller's own types.
	Cache *sync.Map
	// Network takes Inputs, for methods that run it, or is nil.
	Network Network
	// Block is what Inputs holds of these rows. Scorer sets it where it asks a
	// method that runs the network for scores.
	Block InputBlock
}

// Parts are the matrices that the batch has, each with the Name that errors and
// files have for it; what is set in them is set in the batch.
func (b *Batch) Parts() parts.Parts { return parts.Of(&b.Features, &b.Logits, b.Layers) }

// needed are the parts among needs.
func (b *Batch) needed(needs Needs) parts.Parts {
	return slices.DeleteFunc(b.Parts(), func(p parts.Part) bool {
		switch p.Name {
		case "features":
			return !needs.Features
		case "logits":
			return !needs.Logits
		}
		return !needs.Layers
	})
}

// mapped is what become makes of each part, with the network, and neither labels
// nor inputs.
func (b Batch) mapped(become func(blas32.General) blas32.General) Batch {
	s := Batch{Features: b.Features, Logits: b.Logits, Layers: slices.Clone(b.Layers), Network: b.Network}
	for _, p := range s.Parts() {
		*p.General = become(*p.General)
	}
	return s
}

// Len is the number of rows.
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

// Slice returns rows i to j−1: labels and parts share memory with b, and Inputs
// are selected.
func (b Batch) Slice(i, j int) Batch {
	s := b.mapped(func(m blas32.General) blas32.General { return rows.Slice(m, i, j) })
	if b.Labels != nil {
		s.Labels = b.Labels[i:j]
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

// Select copies rows, in the order given. Rows outside panic, here and in Slice.
func (b Batch) Select(picked []int) Batch {
	s := b.mapped(func(m blas32.General) blas32.General { return rows.Select(m, picked) })
	if b.Labels != nil {
		s.Labels = make([]int, len(picked))
		for i, r := range picked {
			s.Labels[i] = b.Labels[r]
		}
	}
	if b.Inputs != nil {
		s.Inputs = b.Inputs.Select(picked)
	}
	return s
}

// Validate checks that the parts of a batch are whole and fit together: as many
// rows in each, and, where there are logits, every label in [0,c).
func (b Batch) Validate() error {
	n := b.Len()
	for _, p := range b.Parts() {
		if err := rows.Whole(*p.General); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		if p.Rows != n || p.Cols < 1 {
			return fmt.Errorf("%d rows but %s of %d×%d", n, p.Name, p.Rows, p.Cols)
		}
	}
	if b.Inputs != nil && b.Inputs.Len() != n {
		return fmt.Errorf("%d rows but %d of inputs", n, b.Inputs.Len())
	}
	if b.Labels == nil {
		return nil
	}
	if len(b.Labels) != n {
		return fmt.Errorf("%d rows but %d labels", n, len(b.Labels))
	}
	for i, y := range b.Labels {
		if y < 0 {
			return fmt.Errorf("label %d of row %d is negative", y, i)
		}
		if b.Logits.Cols > 0 && y >= b.Logits.Cols {
			return fmt.Errorf("label %d of row %d is outside [0,%d)", y, i, b.Logits.Cols)
		}
	}
	return nil
}
