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
	// Blocks yields all rows in order, in blocks of at most the given number, which
	// is 1 or more.
	// A block's memory may be used again for the next.
	Blocks(ctx context.Context, rows int) iter.Seq2[InputBlock, error]
	// Select returns the given rows, in that order. Rows outside panic.
	Select(rows []int) Inputs
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
	return inMemory{shape: slices.Clone(shape), data: data}
}

type inMemory struct {
	shape []int
	data  []float32
}

func (m inMemory) Len() int { return m.shape[0] }

func (m inMemory) block(i, j int) InputBlock {
	width := 0
	if m.shape[0] > 0 {
		width = len(m.data) / m.shape[0]
	}
	return InputBlock{Start: i, Shape: append([]int{j - i}, m.shape[1:]...), Data: m.data[i*width : j*width]}
}

func (m inMemory) Blocks(ctx context.Context, rows int) iter.Seq2[InputBlock, error] {
	return func(yield func(InputBlock, error) bool) {
		for i := 0; i < m.Len(); i += rows {
			if err := ctx.Err(); err != nil {
				yield(InputBlock{}, err)
				return
			}
			if !yield(m.block(i, min(i+rows, m.Len())), nil) {
				return
			}
		}
	}
}

func (m inMemory) Select(rows []int) Inputs {
	s := inMemory{shape: append([]int{len(rows)}, m.shape[1:]...)}
	for _, r := range rows {
		s.data = append(s.data, m.block(r, r+1).Data...)
	}
	return s
}
