package batchparts

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// Map returns a batch with the result of transform for each part of b. The result has no
// labels and no inputs.
func Map(b ood.Batch, transform func(blas32.General) blas32.General) ood.Batch {
	var s ood.Batch
	for _, p := range Of(&b) {
		Set(&s, p.Name, transform(*p.General))
	}
	return s
}

// Append appends the rows of more to the parts of b, in amortised constant time per row.
// The parts must have the same names and widths, unless b has no parts. Labels and inputs
// of b do not change, but a batch without parts loses them. Hashes are kept only if all
// rows have them.
func Append(b *ood.Batch, more ood.Batch) error {
	n := b.Len()
	added, to := Of(&more), Of(b)
	if len(to) == 0 {
		*b = Map(more, func(m blas32.General) blas32.General { return blas32.General{Cols: m.Cols, Stride: m.Cols} })
		to = Of(b)
	}
	if !slices.EqualFunc(to, added, func(a, b Part) bool { return a.Name == b.Name }) {
		return fmt.Errorf("rows have the parts %s, but earlier rows have %s", names(added), names(to))
	}
	if err := added.Widths().Check(to.Widths(), "rows", "earlier rows have"); err != nil {
		return err
	}
	for k, p := range added {
		m := to[k].General
		if len(m.Data) != m.Rows*m.Cols || m.Stride != m.Cols {
			all := rows.New(m.Rows, m.Cols)
			for i := range m.Rows {
				copy(rows.Row(all, i), rows.Row(*m, i))
			}
			*m = all
		}
		for i := range p.Rows {
			m.Data = append(m.Data, rows.Row(*p.General, i)...)
		}
		m.Rows += p.Rows
	}
	if more.Hashes != nil && len(b.Hashes) == n {
		b.Hashes = append(b.Hashes, more.Hashes...)
	} else {
		b.Hashes = nil
	}
	return nil
}

func names(all Parts) string {
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.Name
	}
	return strings.Join(names, ", ")
}

// Validate returns an error unless all parts of a batch are valid matrices with the same
// number of rows. If there are inputs, hashes or labels, each row must have one. Labels
// must not be negative. If there are c logits, labels must be below c.
func Validate(b ood.Batch) error {
	n := b.Len()
	for _, p := range Of(&b) {
		if err := rows.Whole(*p.General); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		if p.Rows != n || p.Cols < 1 {
			return fmt.Errorf("%d rows but %s of %d×%d", n, p.Name, p.Rows, p.Cols)
		}
	}
	if b.Inputs != nil {
		if err := CheckInputs(b.Inputs, n); err != nil {
			return err
		}
	}
	if b.Hashes != nil && len(b.Hashes) != n {
		return fmt.Errorf("%d rows but %d hashes", n, len(b.Hashes))
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

// CheckInputs returns an error if x does not have n rows, or if x is an invalid block.
func CheckInputs(x ood.Inputs, n int) error {
	if block, ok := x.(ood.InputBlock); ok {
		if err := block.Check(); err != nil {
			return err
		}
	}
	if x.Len() != n {
		return fmt.Errorf("%d rows but %d rows of inputs", n, x.Len())
	}
	return nil
}
