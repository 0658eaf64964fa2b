package featurize

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/attach-uncertainty/attach/ood"
)

// chunk is what one run of the network takes.
type chunk struct {
	shape []int // with the padded number of rows first
	data  []float32
	n     int // rows that are not padding
	first int // number of the first row
	err   error
}

// feeder cuts blocks of rows into chunks in two buffers: one is filled while
// the network reads the other.
type feeder struct {
	m     *Model
	batch int // rows of a chunk
	full  chan chunk
	free  chan []float32
}

func newFeeder(m *Model, batch int) *feeder {
	f := &feeder{m: m, batch: batch, full: make(chan chunk), free: make(chan []float32, 2)}
	f.free <- nil
	f.free <- nil
	return f
}

// feed sends chunks until the rows end, one is bad, or ctx is cancelled, and
// closes full.
func (f *feeder) feed(ctx context.Context, rows iter.Seq2[ood.InputBlock, error]) {
	defer close(f.full)
	var c chunk // being filled; data is nil between chunks
	next := 0   // number of the next row
	for block, err := range rows {
		var r ood.Tensor
		if err == nil {
			r, err = f.check(block, next)
		}
		if err != nil {
			// Rows before the bad one are still good.
			if f.send(ctx, &c) {
				f.emit(ctx, chunk{err: err})
			}
			return
		}
		width := product(r.Shape[1:])
		if c.n > 0 && !slices.Equal(c.shape[1:], r.Shape[1:]) && !f.send(ctx, &c) {
			return
		}
		for at := 0; at < r.Shape[0]; {
			if c.n == 0 {
				var ok bool
				if c, ok = f.start(ctx, r.Shape, next); !ok {
					return
				}
			}
			k := min(f.batch-c.n, r.Shape[0]-at)
			c.data = append(c.data, r.Data[at*width:(at+k)*width]...)
			c.n, at, next = c.n+k, at+k, next+k
			if c.n == f.batch && !f.send(ctx, &c) {
				return
			}
		}
	}
	f.send(ctx, &c)
}

// check says whether a block is well formed and fits the model.
func (f *feeder) check(b ood.InputBlock, first int) (ood.Tensor, error) {
	if err := b.Check(); err != nil {
		return ood.Tensor{}, err
	}
	r := b.Tensors[0]
	if len(b.Tensors) > 1 || len(r.Strings) > 0 || r.Lengths != nil {
		return r, errors.New("the model takes rows of one tensor of numbers, all of one shape")
	}
	if err := f.m.input.check(r.Shape); err != nil {
		return r, err
	}
	if len(r.Data) == 0 {
		return r, nil
	}
	return r, f.m.input.checkValues(r.Data, len(r.Data)/r.Shape[0], first)
}

// start takes a free buffer for rows of a shape.
func (f *feeder) start(ctx context.Context, shape []int, first int) (chunk, bool) {
	select {
	case data := <-f.free:
		if need := f.batch * product(shape[1:]); cap(data) < need && (f.m.fixed || shape[0] >= f.batch) {
			data = make([]float32, 0, need)
		}
		return chunk{shape: slices.Clone(shape), data: data[:0], first: first}, true
	case <-ctx.Done():
		return chunk{}, false
	}
}

// send pads a chunk where the model needs it, hands it on and empties it. An
// empty chunk is not sent.
func (f *feeder) send(ctx context.Context, c *chunk) bool {
	if c.n == 0 {
		return true
	}
	width := len(c.data) / c.n
	c.shape[0] = c.n
	if f.m.fixed {
		for ; c.shape[0] < f.batch; c.shape[0]++ {
			c.data = append(c.data, c.data[(c.n-1)*width:c.n*width]...)
		}
	}
	ok := f.emit(ctx, *c)
	*c = chunk{}
	return ok
}

func (f *feeder) emit(ctx context.Context, c chunk) bool {
	select {
	case f.full <- c:
		return true
	case <-ctx.Done():
		return false
	}
}
