package inputs

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// Blocks implements ood.Inputs. It reads the set in order, in blocks of the given number of
// rows. The last block may be shorter. Blocks reads the next block while the caller works,
// so two blocks are in memory. The caller may keep a block. The sequence ends with an error
// if a file cannot be read, if the model cannot take a number, for example an infinity, or
// if the context ends. Each loop reads the files again.
func (s *Set) Blocks(ctx context.Context, rows int) iter.Seq2[ood.InputBlock, error] {
	if rows < 1 {
		panic("inputs: blocks of no rows")
	}
	return func(yield func(ood.InputBlock, error) bool) {
		type result struct {
			b   ood.InputBlock
			err error
		}
		readCtx, cancel := context.WithCancel(ctx)
		results := make(chan result)
		go func() {
			defer close(results)
			s.produce(readCtx, rows, func(b ood.InputBlock, err error) bool {
				select {
				case results <- result{b, err}:
					return err == nil
				case <-readCtx.Done():
					return false
				}
			})
		}()
		defer func() {
			cancel()
			for range results { // wait until produce has closed its files
			}
		}()
		for r := range results {
			if ctx.Err() != nil {
				break
			}
			if !yield(r.b, r.err) || r.err != nil {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(ood.InputBlock{}, err)
		}
	}
}

// Block reads some rows as one block. The argument rows holds their indices.
func (s *Set) Block(ctx context.Context, rows []int) (block ood.InputBlock, err error) {
	for b, err := range s.Subset(rows).Blocks(ctx, max(len(rows), 1)) {
		if err != nil {
			return block, err
		}
		block = b
	}
	return block, nil
}

// produce passes blocks to emit in order until emit returns false.
func (s *Set) produce(ctx context.Context, rows int, emit func(ood.InputBlock, error) bool) {
	r, err := s.src.open()
	if err != nil {
		emit(ood.InputBlock{}, err)
		return
	}
	defer r.Close()
	idx := make([]int, 0, min(rows, s.Len()))
	for start := 0; start < s.Len(); start += rows {
		n := min(rows, s.Len()-start)
		idx = idx[:0]
		for i := range n {
			idx = append(idx, s.Row(start+i))
		}
		tensors, err := r.read(ctx, idx)
		for _, t := range tensors {
			if err == nil {
				err = s.check(t, start)
			}
		}
		if err != nil {
			emit(ood.InputBlock{}, err)
			return
		}
		if !emit(ood.InputBlock{Start: start, Tensors: tensors, Measures: measuresOf(r)}, nil) {
			return
		}
	}
}

// Check reads all rows in blocks and returns the error of the first row that cannot be
// read. It does nothing if the rows were already read when the set was opened.
func (s *Set) Check(ctx context.Context, rows int) error {
	if m, ok := s.src.(checkedSource); ok && m.readableRows() != nil {
		return nil
	}
	for _, err := range s.Blocks(ctx, rows) {
		if err != nil {
			return err
		}
	}
	return nil
}

// All reads the whole set as a matrix, in which each row has all elements of a row of the
// set. The set must have one tensor.
func (s *Set) All(ctx context.Context) (blas32.General, error) {
	width := s.RowLen()
	out := blas32.General{Rows: s.Len(), Cols: width, Stride: width, Data: make([]float32, s.Len()*width)}
	for b, err := range s.Blocks(ctx, 256) {
		if err != nil {
			return blas32.General{}, err
		}
		copy(out.Data[b.Start*width:], b.Tensors[0].Data)
	}
	return out, nil
}

// check returns an error for numbers that are not finite, except NaN if the input accepts
// it. If the input takes integers, it also returns an error for integers whose absolute
// value is 2²⁴ or more, because float32 cannot represent all of them. start is the number
// of the first row of t.
func (s *Set) check(t ood.Tensor, start int) error {
	input := inputNamed(s.takes, t.Name)
	i, format, requirement := rows.FirstNotFinite(t.Data), "%v", "every input must be a finite float32"
	switch {
	case input == nil:
	case input.NaN:
		i = slices.IndexFunc(t.Data, func(v float32) bool { return math.IsInf(float64(v), 0) })
		requirement += " or NaN"
	case i < 0 && input.isInteger():
		i = slices.IndexFunc(t.Data, func(v float32) bool { return v >= rows.MaxExact || v <= -rows.MaxExact })
		format, requirement = "%.0f", fmt.Sprintf("whole numbers of 2²⁴ and more, for the input %q, are not read", t.Name)
	}
	if i < 0 {
		return nil
	}
	row, at := locate(t, i)
	return fmt.Errorf("%s: "+format+" at index %v; %s", s.Name(start+row), t.Data[i], at, requirement)
}

// locate returns the row of element i of a tensor, and the index within that row.
func locate(t ood.Tensor, i int) (row int, at []int) {
	if t.Lengths == nil {
		width := rows.Elements(t.Shape[1:])
		return i / width, unravel(i%width, t.Shape[1:])
	}
	width := rows.Elements(t.Shape[2:])
	for row < len(t.Lengths) && i >= t.Lengths[row]*width {
		i -= t.Lengths[row] * width
		row++
	}
	return row, unravel(i, t.Shape[1:])
}

// unravel returns the index along each axis of element i of a row.
func unravel(i int, shape []int) []int {
	at := make([]int, len(shape))
	for k := len(shape) - 1; k >= 0; k-- {
		at[k] = i % shape[k]
		i /= shape[k]
	}
	return at
}
