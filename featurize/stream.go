package featurize

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/ood"
)

// Features runs the model on blocks of rows, in order. Each batch that it yields contains
// features φ, logits if the model has any, the layers in Info.Layers, marks of empty cells
// and, unless Options.Unhashed is set, hashes of the inputs. Features stops at the first
// error. While the model runs, another goroutine requests the next block. Features copies
// each block before that, so the iterator may reuse its memory. The caller owns the
// batches. If rows x are in memory, pass x.Blocks(ctx, n) to read n rows at a time.
//
// A block has a named tensor for each required input of the model. If rows of tokens
// differ in length (see [ood.Tensor.Lengths]), rows of equal length run together. Lengths
// beyond 32 may be padded so that more rows are equal. This requires that a mask among the
// inputs covers the padding, and that a test run showed no effect on the outputs. If the
// model fixes the length, rows are padded to it. This requires a mask or a tokenizer.
// Larger blocks fill the runs better. The results of a block whose rows differ in length
// come in one batch.
//
// Features yields an error if rows or outputs of the model contain NaN or infinities. The
// error names the row, counted from 0. NaN is allowed in inputs with Value.NaN, and in
// features that contain such inputs. If rows is nil, there are no rows.
func (m *Model) Features(ctx context.Context, rows iter.Seq2[ood.InputBlock, error]) iter.Seq2[ood.Batch, error] {
	f := newFeeder(m, m.batchSize, m.maxPositions)
	f.hashRows = !m.unhashed
	return stream(ctx, f, rows, m.run, restoreOrder)
}

// stream divides rows into chunks and calls run for each chunk. If the rows of a block do
// not run in the order of the block, join combines the results of its chunks in the order
// of the block. If join is nil, the results are yielded as they come.
func stream[B any](ctx context.Context, f *feeder, rows iter.Seq2[ood.InputBlock, error], run func(context.Context, chunk) (B, error),
	join func(all []B, order []int) (B, error)) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		var zero B
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		var panicked any
		go func() {
			defer close(done)
			defer func() {
				if panicked = recover(); panicked != nil {
					panicked = fmt.Sprintf("%v\n\n%s", panicked, debug.Stack())
				}
			}()
			f.feed(ctx, rows)
		}()
		defer func() {
			cancel()
			<-done
			if panicked != nil { // pass a panic of the caller's iterator on, so that the caller can recover
				panic(panicked)
			}
		}()
		var parts []B
		var order []int
		for c := range f.filled {
			if c.err != nil {
				yield(zero, c.err)
				return
			}
			b, err := run(ctx, c)
			f.buffers <- c.tensors
			if c.order != nil && join != nil && err == nil {
				parts, order = append(parts, b), append(order, c.order...)
				if !c.last {
					continue
				}
				b, err = join(parts, order)
				parts, order = nil, nil
			}
			if err != nil {
				yield(zero, err)
				return
			}
			if !yield(b, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(zero, err)
		}
	}
}

// run computes φ, logits and earlier layers of a chunk, and drops padding rows.
func (m *Model) run(ctx context.Context, c chunk) (ood.Batch, error) {
	x, err := m.inputs.newTensors(c.tensors)
	if err != nil {
		return ood.Batch{}, err
	}
	defer closeAll(x)
	out, err := m.session.Run(ctx, x)
	if err != nil {
		return ood.Batch{}, runError(ctx, c, err)
	}
	defer closeAll(out)
	b, err := m.batchOf(c, out)
	if err != nil {
		return b, err
	}
	b.Hashes, b.Gaps = c.hashes, m.inputs.emptyCells(c)
	b.Layers = slices.Grow(b.Layers, len(m.info.Layers))
	for i, t := range out[2:] {
		l := m.info.Layers[i]
		layer, err := m.rowsOf(c, t, "layer \""+l.Tensor+"\"", l.Width)
		if err != nil {
			return b, &batchparts.LayerError{Err: err}
		}
		b.Layers = append(b.Layers, layer)
	}
	return b, nil
}

// runOnce runs the model on rows that fit into one run. It returns nil for more rows than
// that, for no rows, for rows that differ in length, and if the model has a tokenizer or a
// fixed batch. It computes no hashes, because services do not need them.
func (m *Model) runOnce(ctx context.Context, x ood.InputBlock) (*ood.Batch, error) {
	n := x.Len()
	if m.fixedBatch || m.tokenizer != nil || n == 0 || n > m.batchSize {
		return nil, nil
	}
	list, err := m.inputs.match(x, 0)
	if err != nil || isRagged(list) {
		return nil, err
	}
	if perRow := m.inputs.positionsPerRow(list); perRow > 0 && m.maxPositions > 0 && n > max(1, m.maxPositions/perRow) {
		return nil, nil
	}
	b, err := m.run(ctx, chunk{tensors: list, rows: n, n: n})
	return &b, err
}

// runError returns an error that names the rows of the chunk, or the error of a cancelled
// ctx.
func runError(ctx context.Context, c chunk, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	first, last := c.row(0), c.row(c.n-1)
	if c.order != nil {
		first, last = c.first+slices.Min(c.order), c.first+slices.Max(c.order)
	}
	return fmt.Errorf("the model failed on rows %d to %d (counted from 0): %w", first, last, err)
}

// batchOf returns φ and the logits, which are the first two outputs of a session.
func (m *Model) batchOf(c chunk, out []*ort.Tensor) (b ood.Batch, err error) {
	if b.Features, err = m.rowsOf(c, out[0], "feature", m.info.Feature.Width); err == nil {
		b.Logits, err = m.logitsOf(c, out[1])
	}
	return b, err
}

// logitsOf returns the logits of a chunk, or an empty matrix if the model has none.
func (m *Model) logitsOf(c chunk, t *ort.Tensor) (blas32.General, error) {
	if m.info.Logits == "" {
		return blas32.General{}, nil
	}
	return m.rowsOf(c, t, "output", m.info.OutputsWidth)
}

// shapes formats the shapes of a chunk's tensors for messages.
func (c chunk) shapes() string {
	var list []string
	for _, t := range c.tensors {
		if t.Shape != nil {
			list = append(list, formatShape(t.Shape))
		}
	}
	return strings.Join(list, ", ")
}

// rowsOf returns an output of a session as rows, which remain valid after the output is
// closed. Padding rows are dropped. If want is not 0, the output must have want columns.
// All numbers must be finite, except that NaN may mark empty cells in features.
func (m *Model) rowsOf(c chunk, t *ort.Tensor, name string, want int) (blas32.General, error) {
	v, err := asRows(t, c.rows)
	if err != nil {
		return blas32.General{}, fmt.Errorf("the model's %s comes out with %w", name, err)
	}
	if want > 0 && v.Cols != want {
		return blas32.General{}, fmt.Errorf("the model's %s has %d columns for rows of %s, not %d", name, v.Cols, c.shapes(), want)
	}
	v.Rows = c.n
	v.Data = v.Data[: c.n*v.Cols : c.n*v.Cols]
	// If the features are columns of a table, NaN marks empty cells and is no error.
	gaps := name == "feature" && m.info.Feature.Of != nil
	if i := slices.IndexFunc(v.Data, func(x float32) bool { return !rows.Finite(x) && !(gaps && x != x) }); i >= 0 {
		return blas32.General{}, notFinite("model's "+name, v.Data[i], c.row(i/v.Cols))
	}
	return v, nil
}

// All collects the results of Features for n rows. If n is negative, the number of rows is
// unknown. All returns an error if there are no rows, or more or fewer than n. If progress
// is not nil, it is called with the number of rows done so far.
func (m *Model) All(ctx context.Context, rows iter.Seq2[ood.InputBlock, error], n int, progress func(done int)) (ood.Batch, error) {
	var all ood.Batch
	done := 0
	for b, err := range m.Features(ctx, rows) {
		if err != nil {
			return ood.Batch{}, err
		}
		if err := appendTo(&all, b, n); err != nil {
			return ood.Batch{}, fmt.Errorf("row %d (counted from 0): %w", done, err)
		}
		done += b.Features.Rows
		if progress != nil {
			progress(done)
		}
	}
	if done == 0 {
		return ood.Batch{}, errors.New("there are no rows")
	}
	if n >= 0 && done != n {
		return ood.Batch{}, fmt.Errorf("%d rows came instead of the expected %d", done, n)
	}
	return all, nil
}

// appendTo appends the rows of b to all. The first call allocates memory for n rows.
func appendTo(all *ood.Batch, b ood.Batch, n int) error {
	if all.Features.Cols == 0 {
		*all = batchparts.Map(b, func(m blas32.General) blas32.General {
			return blas32.General{Cols: m.Cols, Stride: m.Cols, Data: make([]float32, 0, max(n, m.Rows)*m.Cols)}
		})
	}
	return batchparts.Append(all, b)
}

// oneBlock yields one block of rows that are in memory.
func oneBlock(x ood.InputBlock) iter.Seq2[ood.InputBlock, error] {
	return func(yield func(ood.InputBlock, error) bool) { yield(x, nil) }
}
