package ood

import (
	"fmt"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas/blas32"

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

// HasFeatures says whether the batch carries features, be it for zero rows.
func (b Batch) HasFeatures() bool { return b.Features.Cols > 0 }

// HasLogits says whether the batch carries logits, be it for zero rows.
func (b Batch) HasLogits() bool { return b.Logits.Cols > 0 }

// HasLayers says whether the batch carries earlier layers, be it for zero rows.
func (b Batch) HasLayers() bool { return len(b.Layers) > 0 }

// Part is one matrix of a batch, under the name that errors and files have for
// it.
type Part struct {
	Name string // features, logits, layer_0, layer_1 …
	Need Needs
	*blas32.General
}

// single are the parts that a batch can have one of.
func (b *Batch) single() []Part {
	return []Part{{"features", NeedFeatures, &b.Features}, {"logits", NeedLogits, &b.Logits}}
}

// Parts are the matrices that the batch has; what is set in them is set in the
// batch.
func (b *Batch) Parts() []Part {
	parts := slices.DeleteFunc(b.single(), func(p Part) bool { return p.Cols == 0 })
	for i := range b.Layers {
		parts = append(parts, Part{LayerName(i), NeedLayers, &b.Layers[i]})
	}
	return parts
}

// LayerName is what errors and files call earlier layer i, from 0.
func LayerName(i int) string { return fmt.Sprintf("layer_%d", i) }

// PartNames are the names of the parts among n for which has holds: of
// earlier layers those before the first that is absent.
func (n Needs) PartNames(has func(name string) bool) []string {
	var names []string
	for _, p := range new(Batch).single() {
		if p.Need&n != 0 && has(p.Name) {
			names = append(names, p.Name)
		}
	}
	for i := 0; n&NeedLayers != 0 && has(LayerName(i)); i++ {
		names = append(names, LayerName(i))
	}
	return names
}

// Set gives the batch a part by one of PartNames, in their order.
func (b *Batch) Set(name string, m blas32.General) {
	for _, p := range b.single() {
		if p.Name == name {
			*p.General = m
			return
		}
	}
	b.Layers = append(b.Layers, m)
}

// Map returns what become makes of each part of the batch, alone: neither labels
// nor inputs.
func (b Batch) Map(become func(blas32.General) blas32.General) Batch {
	var s Batch
	for _, p := range b.Parts() {
		s.Set(p.Name, become(*p.General))
	}
	return s
}

// Only returns the parts that are among needs, alone: neither labels nor inputs.
func (b Batch) Only(needs Needs) Batch {
	var s Batch
	for _, p := range b.Parts() {
		if p.Need&needs != 0 {
			s.Set(p.Name, *p.General)
		}
	}
	return s
}

// Append puts the parts of more below those of b, which must be as many and as
// wide unless b has none; labels and inputs it leaves alone. It grows matrices as
// append does.
func (b *Batch) Append(more Batch) error {
	below, parts := more.Parts(), b.Parts()
	if len(parts) == 0 {
		*b = more.Map(func(m blas32.General) blas32.General { return blas32.General{Cols: m.Cols, Stride: m.Cols} })
		parts = b.Parts()
	}
	if !slices.EqualFunc(parts, below, func(a, b Part) bool { return a.Name == b.Name }) {
		return fmt.Errorf("rows have other parts (%s) than those before them (%s)", more.has(), b.has())
	}
	if err := more.Widths(^Needs(0)).Check(b.Widths(^Needs(0)), "rows", "those before them have"); err != nil {
		return err
	}
	for k, p := range below {
		if to := parts[k]; len(to.Data) != to.Rows*to.Cols || to.Stride != to.Cols {
			*to.General = to.copied()
		}
		for i := range p.Rows {
			parts[k].Data = append(parts[k].Data, rows.Row(*p.General, i)...)
		}
		parts[k].Rows += p.Rows
	}
	return nil
}

// copied are the part's rows without gaps between them.
func (p Part) copied() blas32.General {
	m := rows.New(p.Rows, p.Cols)
	for i := range p.Rows {
		copy(rows.Row(m, i), rows.Row(*p.General, i))
	}
	return m
}

// CheckFinite returns an *attach.NotFiniteError for the first number of the parts
// among needs that is NaN or infinite. what, if not empty, says whose they are.
func (b Batch) CheckFinite(what string, needs Needs) error {
	if what != "" {
		what += ": "
	}
	b = b.Only(needs)
	for _, p := range b.Parts() {
		if err := rows.CheckFinite(what+p.Name, *p.General); err != nil {
			return err
		}
	}
	return nil
}

// Len is the number of rows.
func (b Batch) Len() int {
	for _, p := range b.Parts() {
		return p.Rows
	}
	if b.Labels == nil && b.Inputs != nil {
		return b.Inputs.Len()
	}
	return len(b.Labels)
}

// Slice returns rows i to j−1: labels and parts share memory with b, and Inputs
// are selected.
func (b Batch) Slice(i, j int) Batch {
	s := b.Map(func(m blas32.General) blas32.General { return rows.Slice(m, i, j) })
	s.Network = b.Network
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

// Select copies rows, in the order given.
func (b Batch) Select(picked []int) Batch {
	s := b.Map(func(m blas32.General) blas32.General { return rows.Select(m, picked) })
	s.Network = b.Network
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
		if b.HasLogits() && y >= b.Logits.Cols {
			return fmt.Errorf("label %d of row %d is outside [0,%d)", y, i, b.Logits.Cols)
		}
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
	for i, top := range b.Predicted() {
		wrong[i] = top != b.Labels[i]
	}
	return wrong
}

// Predicted is the class of the largest logit of every row.
func (b Batch) Predicted() []int {
	classes := make([]int, b.Logits.Rows)
	for i := range classes {
		z := rows.Row(b.Logits, i)
		for k, v := range z {
			if v > z[classes[i]] {
				classes[i] = k
			}
		}
	}
	return classes
}
