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

// Features runs the model on blocks of rows, in order. It yields, batch by batch, φ, logits,
// the layers of Info.Layers, empty cells and hashes of the inputs. The first error ends it. A
// block is copied before the next one is requested, which happens on another goroutine while
// the model runs. The caller owns the batches. For rows x in memory, pass x.Blocks(ctx, n), n
// rows at a time.
//
// A block has a named tensor for each required input of the model. Rows of tokens that differ
// in length ([ood.Tensor.Lengths]) run in groups of equal length. Lengths beyond 32 are padded
// to certain lengths, if a mask among the inputs covers the padding and a test run showed that
// outputs do not depend on it. Larger blocks fill runs better. The results of such a block
// come in one batch.
//
// NaN and infinities, in rows or in the model's outputs, are errors that name the row, counted
// from 0. A nil rows means no rows.
func (m *Model) Features(ctx context.Context, rows iter.Seq2[ood.InputBlock, error]) iter.Seq2[ood.Batch, error] {
	f := newFeeder(m, m.batch, m.positions)
	f.hashes = !m.unhashed
	return stream(ctx, f, rows, m.run, inPlaces)
}

// stream runs the model on chunks of rows. If a block's rows ran in another order, join puts
// their results back together, unless it is nil.
func stream[B any](ctx context.Context, f *feeder, rows iter.Seq2[ood.InputBlock, error], run func(context.Context, chunk) (B, error),
	join func(all []B, places []int) (B, error)) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		var none B
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
			if panicked != nil { // the caller's iterator panicked, and the caller may recover
				panic(panicked)
			}
		}()
		var parts []B
		var places []int
		for c := range f.full {
			if c.err != nil {
				yield(none, c.err)
				return
			}
			b, err := run(ctx, c)
			f.free <- c.tensors
			if c.places != nil && join != nil && err == nil {
				parts, places = append(parts, b), append(places, c.places...)
				if !c.last {
					continue
				}
				b, err = join(parts, places)
				parts, places = nil, nil
			}
			if err != nil {
				yield(none, err)
				return
			}
			if !yield(b, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(none, err)
		}
	}
}

// run maps one chunk to φ, logits and earlier layers, and drops padding rows.
func (m *Model) run(ctx context.Context, c chunk) (ood.Batch, error) {
	x, err := m.inputs.wrap(c.tensors)
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
	b.Hashes, b.Gaps = c.hashes, m.inputs.gaps(c)
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

// once runs the model on rows that fit into one run, and returns nil for others. It computes
// no hashes, because services do not need them.
func (m *Model) once(ctx context.Context, x ood.InputBlock) (*ood.Batch, error) {
	n := x.Len()
	if m.fixed || m.texts != nil || n == 0 || n > m.batch {
		return nil, nil
	}
	list, err := m.inputs.match(x, 0)
	if err != nil || ragged(list) {
		return nil, err
	}
	if each := m.inputs.positions(list); each > 0 && m.positions > 0 && n > max(1, m.positions/each) {
		return nil, nil
	}
	b, err := m.run(ctx, chunk{tensors: list, rows: n, n: n})
	return &b, err
}

func runError(ctx context.Context, c chunk, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	first, last := c.row(0), c.row(c.n-1)
	if c.places != nil {
		first, last = c.first+slices.Min(c.places), c.first+slices.Max(c.places)
	}
	return fmt.Errorf("the model failed on rows %d to %d (counted from 0): %w", first, last, err)
}

// batchOf returns φ and the logits, the first two outputs of a session.
func (m *Model) batchOf(c chunk, out []*ort.Tensor) (b ood.Batch, err error) {
	if b.Features, err = m.rowsOf(c, out[0], "feature", m.info.Feature.Width); err == nil {
		b.Logits, err = m.logitsOf(c, out[1])
	}
	return b, err
}

func (m *Model) logitsOf(c chunk, t *ort.Tensor) (blas32.General, error) {
	if m.info.Logits == "" {
		return blas32.General{}, nil
	}
	return m.rowsOf(c, t, "output", m.info.OutputsWidth)
}

// shapes formats the shapes of a chunk's rows.
func (c chunk) shapes() string {
	var list []string
	for _, t := range c.tensors {
		if t.Shape != nil {
			list = append(list, times(t.Shape))
		}
	}
	return strings.Join(list, ", ")
}

// rowsOf returns an output as rows, which remain valid when it is closed. It must have want
// columns, unless want is 0.
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
	// If features are columns of a table, empty cells are NaN in them.
	gaps := name == "feature" && m.info.Feature.Of != nil
	if i := slices.IndexFunc(v.Data, func(x float32) bool { return !rows.Finite(x) && !(gaps && x != x) }); i >= 0 {
		return blas32.General{}, notFinite("model's "+name, v.Data[i], c.row(i/v.Cols))
	}
	return v, nil
}

// All collects the results of Features for n rows, such as those of x.Blocks; n < 0 means that
// the number is unknown. Progress, if not nil, is called with the rows done so far.
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

// appendTo appends the rows of b to all. The first call makes room for n rows.
func appendTo(all *ood.Batch, b ood.Batch, n int) error {
	if all.Features.Cols == 0 {
		*all = batchparts.Map(b, func(m blas32.General) blas32.General {
			return blas32.General{Cols: m.Cols, Stride: m.Cols, Data: make([]float32, 0, max(n, m.Rows)*m.Cols)}
		})
	}
	return batchparts.Append(all, b)
}

// single yields one block of rows in memory.
func single(x ood.InputBlock) iter.Seq2[ood.InputBlock, error] {
	return func(yield func(ood.InputBlock, error) bool) { yield(x, nil) }
}
