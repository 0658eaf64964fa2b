package ood

import (
	"context"
	"fmt"
	"iter"
	"slices"
)

// Inputs are raw inputs of a network, preprocessed, that can be read again and
// again in bounded memory.
type Inputs interface {
	// Len is the number of rows.
	Len() int
	// Blocks yields all rows in order, in blocks of at most the given number.
	// A block's memory may be used again for the next.
	Blocks(ctx context.Context, rows int) iter.Seq2[InputBlock, error]
	// Where there is a method Select(rows []int) Inputs too, rows are picked
	// without reading the others.
}

// InputBlock is consecutive rows of Inputs.
type InputBlock struct {
	Start int       // number of the first row
	Shape []int     // the number of rows first
	Data  []float32 // row-major
}

// Rows is the number of rows.
func (b InputBlock) Rows() int {
	if len(b.Shape) == 0 {
		return 0
	}
	return b.Shape[0]
}

// selector is implemented by Inputs that can give some of their rows, in any
// order, without reading the others.
type selector interface{ Select(rows []int) Inputs }

// selectInputs returns the given rows of in, in that order. Unless in is a
// selector, reading rows in ascending order reads all of in once; in any other
// order, once for every block. Rows outside in panic.
func selectInputs(in Inputs, rows []int) Inputs {
	for _, r := range rows {
		if r < 0 || r >= in.Len() {
			panic(fmt.Sprintf("ood: row %d of %d inputs", r, in.Len()))
		}
	}
	if s, ok := in.(selector); ok {
		return s.Select(rows)
	}
	return selection{in: in, rows: slices.Clone(rows), ascending: slices.IsSorted(rows)}
}

// InputsOf is inputs that are all in memory: data is row-major and shape has
// the number of rows first. Numbers that do not fill the shape panic.
func InputsOf(shape []int, data []float32) Inputs {
	n := 1
	for _, d := range shape {
		n *= d
	}
	if len(shape) == 0 || n != len(data) {
		panic(fmt.Sprintf("ood: %d numbers for inputs of shape %v", len(data), shape))
	}
	return memory{shape: slices.Clone(shape), data: data}
}

type memory struct {
	shape []int
	data  []float32
}

func (m memory) Len() int { return m.shape[0] }

func (m memory) block(i, j int) InputBlock {
	width := 0
	if m.shape[0] > 0 {
		width = len(m.data) / m.shape[0]
	}
	return InputBlock{Start: i, Shape: append([]int{j - i}, m.shape[1:]...), Data: m.data[i*width : j*width]}
}

func (m memory) Blocks(ctx context.Context, rows int) iter.Seq2[InputBlock, error] {
	return func(yield func(InputBlock, error) bool) {
		for i := 0; i < m.Len(); i += max(rows, 1) {
			if err := ctx.Err(); err != nil {
				yield(InputBlock{}, err)
				return
			}
			if !yield(m.block(i, min(i+max(rows, 1), m.Len())), nil) {
				return
			}
		}
	}
}

func (m memory) Select(rows []int) Inputs {
	s := memory{shape: append([]int{len(rows)}, m.shape[1:]...)}
	for _, r := range rows {
		s.data = append(s.data, m.block(r, r+1).Data...)
	}
	return s
}

// selection is some rows of inputs that can only be read in order.
type selection struct {
	in        Inputs
	rows      []int
	ascending bool
}

func (s selection) Len() int { return len(s.rows) }

func (s selection) Select(rows []int) Inputs {
	picked := make([]int, len(rows))
	for i, r := range rows {
		picked[i] = s.rows[r]
	}
	return selectInputs(s.in, picked)
}

func (s selection) Blocks(ctx context.Context, rows int) iter.Seq2[InputBlock, error] {
	rows = max(rows, 1)
	if s.ascending {
		return s.once(ctx, rows)
	}
	return func(yield func(InputBlock, error) bool) {
		for i := 0; i < len(s.rows); i += rows {
			b, err := s.gather(ctx, i, min(i+rows, len(s.rows)), rows)
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// once reads the source from beginning to end.
func (s selection) once(ctx context.Context, rows int) iter.Seq2[InputBlock, error] {
	return func(yield func(InputBlock, error) bool) {
		next := 0 // of s.rows
		var out InputBlock
		for b, err := range s.in.Blocks(ctx, rows) {
			if err != nil {
				yield(InputBlock{}, err)
				return
			}
			width := len(b.Data) / max(b.Rows(), 1)
			for ; next < len(s.rows) && s.rows[next] < b.Start+b.Rows(); next++ {
				if out.Rows() == 0 {
					out = InputBlock{Start: next, Shape: append([]int{0}, b.Shape[1:]...), Data: out.Data[:0]}
				}
				at := (s.rows[next] - b.Start) * width
				out.Data = append(out.Data, b.Data[at:at+width]...)
				out.Shape[0]++
				if out.Rows() == rows {
					if !yield(out, nil) {
						return
					}
					out.Shape = nil
				}
			}
			if next == len(s.rows) {
				break
			}
		}
		if out.Rows() > 0 {
			yield(out, nil)
		}
	}
}

// gather reads the source for rows i to j−1 of the selection.
func (s selection) gather(ctx context.Context, i, j, rows int) (InputBlock, error) {
	var out InputBlock
	found := 0
	for b, err := range s.in.Blocks(ctx, rows) {
		if err != nil {
			return InputBlock{}, err
		}
		width := len(b.Data) / max(b.Rows(), 1)
		if out.Shape == nil {
			out = InputBlock{Start: i, Shape: append([]int{j - i}, b.Shape[1:]...), Data: make([]float32, (j-i)*width)}
		}
		for k, r := range s.rows[i:j] {
			if at := r - b.Start; at >= 0 && at < b.Rows() {
				copy(out.Data[k*width:(k+1)*width], b.Data[at*width:(at+1)*width])
				found++
			}
		}
		if found == j-i {
			break
		}
	}
	return out, ctx.Err()
}
