package ood

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// Inputs holds preprocessed inputs of a model. All rows can be read several times in bounded
// memory.
type Inputs interface {
	// Len returns the number of rows.
	Len() int
	// Blocks yields all rows in order, in blocks of at most the given number of rows. It
	// panics if that number is below 1. A block is valid only until the next one, which may
	// reuse its memory.
	Blocks(ctx context.Context, rows int) iter.Seq2[InputBlock, error]
	// Select returns the given rows, in that order. It panics if a row does not exist.
	Select(rows []int) Inputs
}

// InputBlock holds consecutive rows of Inputs in memory, as one tensor for each input of the
// model. It implements Inputs.
type InputBlock struct {
	Start   int // number of the first row
	Tensors []Tensor
	// Measures describe the rows as they were before preprocessing. Models do not read them.
	Measures []Measure
}

// Measure holds one number for each row, such as the height of an image in pixels.
type Measure struct {
	Name   string
	Values []float32
}

// Tensor holds the values of several rows for one input of a model.
type Tensor struct {
	// Name is the model's name for the input. It may be empty if the model has only one input.
	Name    string
	Shape   []int     // the number of rows, then the shape of one row
	Data    []float32 // row-major; whole numbers if the input is of an integer type
	Strings []string  // texts, instead of Data, if the input is of type string
	// Lengths, if not nil, holds the length of each row along its first axis. Shape[1] is
	// then the length of padded rows, which no length exceeds, but Data or Strings holds the
	// rows one after another, without padding.
	Lengths []int
}

// Len implements Inputs.
func (b InputBlock) Len() int {
	if len(b.Tensors) == 0 || len(b.Tensors[0].Shape) == 0 {
		return 0
	}
	return b.Tensors[0].Shape[0]
}

// Find returns the tensor of the input with this name, or nil. A tensor without a name matches
// any name.
func (b InputBlock) Find(name string) *Tensor {
	for i, t := range b.Tensors {
		if t.Name == name || t.Name == "" {
			return &b.Tensors[i]
		}
	}
	return nil
}

// Slice returns rows i to j−1.
func (b InputBlock) Slice(i, j int) InputBlock {
	s := InputBlock{Start: b.Start + i}
	for _, t := range b.Tensors {
		s.Tensors = append(s.Tensors, t.slice(i, j))
	}
	for _, m := range b.Measures {
		s.Measures = append(s.Measures, Measure{m.Name, m.Values[i:j]})
	}
	return s
}

// span returns the range of Data or Strings that holds rows i to j−1.
func (t Tensor) span(i, j int) (begin, end int) {
	width := 1
	if t.Lengths == nil {
		for _, d := range t.Shape[1:] {
			width *= d
		}
		return i * width, j * width
	}
	for _, d := range t.Shape[2:] {
		width *= d
	}
	for _, n := range t.Lengths[:i] {
		begin += n * width
	}
	end = begin
	for _, n := range t.Lengths[i:j] {
		end += n * width
	}
	return begin, end
}

func (t Tensor) slice(i, j int) Tensor {
	begin, end := t.span(i, j)
	t.Shape = append([]int{j - i}, t.Shape[1:]...)
	if t.Lengths != nil {
		t.Lengths = t.Lengths[i:j]
	}
	if t.Strings != nil {
		t.Strings = t.Strings[begin:end]
	} else {
		t.Data = t.Data[begin:end]
	}
	return t
}

// check reports whether the numbers or texts match the shape, for this number of rows.
func (t Tensor) check(rows int) bool {
	if len(t.Shape) == 0 || t.Shape[0] != rows || len(t.Data) > 0 && len(t.Strings) > 0 {
		return false
	}
	if t.Lengths != nil {
		if len(t.Lengths) != rows || len(t.Shape) < 2 {
			return false
		}
		if slices.ContainsFunc(t.Lengths, func(n int) bool { return n < 0 || n > t.Shape[1] }) {
			return false
		}
	}
	_, end := t.span(0, rows)
	return end == len(t.Data)+len(t.Strings)
}

// Check returns an error if the block has no tensor, if the data of a tensor do not match its
// shape, or if tensors have different numbers of rows.
func (b InputBlock) Check() error {
	if len(b.Tensors) == 0 {
		return errors.New("the block has no tensor")
	}
	for _, t := range b.Tensors {
		if !t.check(b.Len()) {
			return fmt.Errorf("a tensor of shape %v has %d numbers", t.Shape, len(t.Data)+len(t.Strings))
		}
	}
	return nil
}

// BlockOf returns a block of rows for a model with one input. The data are row-major, and the
// first axis of shape is the number of rows.
func BlockOf(shape []int, data []float32) InputBlock {
	return InputBlock{Tensors: []Tensor{{Shape: shape, Data: data}}}
}

// Blocks implements Inputs. The yielded blocks share memory with b. Their Start is counted
// from the first row of b.
func (b InputBlock) Blocks(ctx context.Context, rows int) iter.Seq2[InputBlock, error] {
	if rows < 1 {
		panic(fmt.Sprintf("ood: blocks of %d rows", rows))
	}
	b.Start = 0
	return func(yield func(InputBlock, error) bool) {
		for i := 0; i < b.Len(); i += rows {
			if err := ctx.Err(); err != nil {
				yield(InputBlock{}, err)
				return
			}
			if !yield(b.Slice(i, min(i+rows, b.Len())), nil) {
				return
			}
		}
	}
}

// Select implements Inputs. It copies the rows.
func (b InputBlock) Select(rows []int) Inputs {
	var s InputBlock
	for _, t := range b.Tensors {
		selected := Tensor{Name: t.Name, Shape: append([]int{len(rows)}, t.Shape[1:]...)}
		for _, r := range rows {
			row := t.slice(r, r+1)
			selected.Data = append(selected.Data, row.Data...)
			selected.Strings = append(selected.Strings, row.Strings...)
			selected.Lengths = append(selected.Lengths, row.Lengths...)
		}
		s.Tensors = append(s.Tensors, selected)
	}
	for _, m := range b.Measures {
		selected := Measure{Name: m.Name}
		for _, r := range rows {
			selected.Values = append(selected.Values, m.Values[r])
		}
		s.Measures = append(s.Measures, selected)
	}
	return s
}
