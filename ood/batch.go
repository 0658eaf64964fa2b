package ood

import (
	"fmt"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/rows"
)

// HasFeatures says whether the batch carries features, be it for zero rows.
func (b Batch) HasFeatures() bool { return b.Features.Cols > 0 }

// HasLogits says whether the batch carries logits, be it for zero rows.
func (b Batch) HasLogits() bool { return b.Logits.Cols > 0 }

// HasLayers says whether the batch carries earlier layers, be it for zero rows.
func (b Batch) HasLayers() bool { return len(b.Layers) > 0 }

// Len is the number of rows.
func (b Batch) Len() int {
	switch {
	case b.HasFeatures():
		return b.Features.Rows
	case b.HasLogits():
		return b.Logits.Rows
	case b.HasLayers():
		return b.Layers[0].Rows
	case b.Labels == nil && b.Inputs != nil:
		return b.Inputs.Len()
	}
	return len(b.Labels)
}

// Slice returns rows i to j−1, sharing memory with b.
func (b Batch) Slice(i, j int) Batch {
	s := b.Map(func(m blas32.General) blas32.General { return rows.Slice(m, i, j) })
	if b.Labels != nil {
		s.Labels = b.Labels[i:j]
	}
	if b.Inputs != nil {
		picked := make([]int, j-i)
		for k := range picked {
			picked[k] = i + k
		}
		s.Inputs = SelectInputs(b.Inputs, picked)
	}
	return s
}

// Select copies rows, in the order given.
func (b Batch) Select(picked []int) Batch {
	s := b.Map(func(m blas32.General) blas32.General { return rows.Select(m, picked) })
	if b.Labels != nil {
		s.Labels = make([]int, len(picked))
		for i, r := range picked {
			s.Labels[i] = b.Labels[r]
		}
	}
	if b.Inputs != nil {
		s.Inputs = SelectInputs(b.Inputs, picked)
	}
	return s
}

// CheckLayers refuses layers of other widths than those fitted with; none are
// fine.
func (b Batch) CheckLayers(fitted []blas32.General) error {
	if !b.HasLayers() || len(fitted) == 0 {
		return nil
	}
	if len(b.Layers) != len(fitted) {
		return fmt.Errorf("there are %d earlier layers but the rows to fit with have %d: write as many with --layers", len(b.Layers), len(fitted))
	}
	for i, m := range b.Layers {
		if m.Cols != fitted[i].Cols {
			return fmt.Errorf("layer %d has %d columns but that of the rows to fit with has %d", i, m.Cols, fitted[i].Cols)
		}
	}
	return nil
}

// Map returns what become makes of each matrix of the batch, alone: neither
// labels nor inputs.
func (b Batch) Map(become func(blas32.General) blas32.General) Batch {
	s := Batch{}
	if b.HasFeatures() {
		s.Features = become(b.Features)
	}
	if b.HasLogits() {
		s.Logits = become(b.Logits)
	}
	for _, m := range b.Layers {
		s.Layers = append(s.Layers, become(m))
	}
	return s
}

// Validate checks that the parts of a batch are whole and fit together: as many
// rows in each, and, where there are logits, every label in [0,c).
func (b Batch) Validate() error {
	for _, p := range b.parts() {
		if err := whole(p.rows); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	n := b.Len()
	if b.HasLogits() && b.Logits.Rows != n {
		return fmt.Errorf("%d rows of features but %d of logits", n, b.Logits.Rows)
	}
	for i, m := range b.Layers {
		if m.Rows != n || m.Cols < 1 {
			return fmt.Errorf("%d rows but layer %d is of %d×%d", n, i, m.Rows, m.Cols)
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
		if b.HasLogits() && y >= b.Logits.Cols {
			return fmt.Errorf("label %d of row %d is outside [0,%d)", y, i, b.Logits.Cols)
		}
	}
	return nil
}

// whole says what a matrix lacks.
func whole(m blas32.General) error {
	switch {
	case m.Rows < 0:
		return fmt.Errorf("there are %d rows", m.Rows)
	case m.Rows > 0 && m.Stride < m.Cols:
		return fmt.Errorf("a stride of %d is too small for %d columns", m.Stride, m.Cols)
	case m.Rows > 0 && len(m.Data) < (m.Rows-1)*m.Stride+m.Cols:
		return fmt.Errorf("%d numbers are too few for %d rows of stride %d", len(m.Data), m.Rows, m.Stride)
	}
	return nil
}

// Wrong says of every row whether the class of the largest logit differs from
// the label, and is nil where the batch lacks labels or logits.
func (b Batch) Wrong() []bool {
	if b.Labels == nil || !b.HasLogits() {
		return nil
	}
	wrong := make([]bool, b.Len())
	for i := range wrong {
		z := b.Logits.Data[i*b.Logits.Stride : i*b.Logits.Stride+b.Logits.Cols]
		best := 0
		for k, v := range z {
			if v > z[best] {
				best = k
			}
		}
		wrong[i] = best != b.Labels[i]
	}
	return wrong
}

// Logits are features·Weightᵀ + Bias, n×c, of features n×h.
func (l Linear) Logits(features blas32.General) blas32.General {
	c := l.Weight.Rows
	z := rows.New(features.Rows, c)
	for i := range z.Rows {
		copy(z.Data[i*c:], l.Bias)
	}
	blas32.Gemm(blas.NoTrans, blas.Trans, 1, features, l.Weight, 1, z)
	return z
}
