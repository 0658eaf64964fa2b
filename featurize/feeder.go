package featurize

import (
	"context"
	"iter"
	"slices"

	"github.com/attach-uncertainty/attach/internal/data/rowhash"
	"github.com/attach-uncertainty/attach/ood"
)

// chunk is the input of one run of the model.
type chunk struct {
	tensors []ood.Tensor // in the order of the inputs; without a shape, the default
	rows    int          // number of rows, padding rows included
	n       int          // number of rows without padding rows
	first   int          // number of the first row, or of the block's first row if places is set
	limit   int          // largest number of rows
	hashes  [][16]byte   // of the rows, or nil
	// places are the places of the rows in their block, if it is run in another order; nil
	// means the original order. Last marks the last chunk of the block.
	places []int
	last   bool
	err    error
}

// row is the number of the row at index i.
func (c chunk) row(i int) int {
	if c.places != nil {
		i = c.places[i]
	}
	return c.first + i
}

// feeder cuts blocks of rows into chunks. It fills one of two buffers while the model reads
// the other.
type feeder struct {
	m         *Model
	batch     int  // rows of a chunk
	positions int  // largest number of positions in a chunk, or 0 for no bound
	hashes    bool // whether to hash rows
	full      chan chunk
	free      chan []ood.Tensor
}

func newFeeder(m *Model, batch, positions int) *feeder {
	f := &feeder{m: m, batch: batch, positions: positions, full: make(chan chunk), free: make(chan []ood.Tensor, 2)}
	f.free <- make([]ood.Tensor, len(m.inputs))
	f.free <- make([]ood.Tensor, len(m.inputs))
	return f
}

// feed sends chunks until the rows end, a row is bad, or ctx is cancelled, and closes full.
func (f *feeder) feed(ctx context.Context, rows iter.Seq2[ood.InputBlock, error]) {
	defer close(f.full)
	if rows == nil {
		return
	}
	var c chunk // the chunk that is filled; n is 0 between chunks
	next := 0   // number of the next row
	for block, err := range f.m.tokenised(rows) {
		var list []ood.Tensor
		if err == nil {
			list, err = f.m.inputs.match(block, next)
		}
		if err != nil {
			// Rows before the bad one are still good.
			if f.send(ctx, &c) {
				f.emit(ctx, chunk{err: err})
			}
			return
		}
		var hashes [][16]byte
		if f.hashes {
			hashes = f.m.hashes(list)
		}
		if ragged(list) {
			if !f.send(ctx, &c) || !f.groups(ctx, list, hashes, block.Len(), next) {
				return
			}
			next += block.Len()
			continue
		}
		if c.n > 0 && !slices.EqualFunc(c.tensors, list, alike) && !f.send(ctx, &c) {
			return
		}
		for at, n := 0, block.Len(); at < n; {
			if c.n == 0 {
				var ok bool
				if c, ok = f.start(ctx, list, n, next); !ok {
					return
				}
			}
			k := min(c.limit-c.n, n-at)
			for i := range c.tensors {
				appendRows(&c.tensors[i], list[i], at, at+k)
			}
			if f.hashes {
				c.hashes = append(c.hashes, hashes[at:at+k]...)
			}
			c.n, at, next = c.n+k, at+k, next+k
			if c.n == c.limit && !f.send(ctx, &c) {
				return
			}
		}
	}
	f.send(ctx, &c)
}

// hashes returns hashes of the rows of a block, before they are padded.
func (m *Model) hashes(list []ood.Tensor) [][16]byte {
	var block ood.InputBlock
	for i, t := range list {
		if t.Shape != nil {
			t.Name = m.inputs[i].name
			block.Tensors = append(block.Tensors, t)
		}
	}
	hashes := make([][16]byte, block.Len())
	for i, h := range rowhash.Inputs(block) {
		hashes[i] = h
	}
	return hashes
}

// alike reports whether rows of two tensors have the same shape.
func alike(a, b ood.Tensor) bool {
	return (a.Shape == nil) == (b.Shape == nil) && (a.Shape == nil || slices.Equal(a.Shape[1:], b.Shape[1:]))
}

// appendRows appends rows i to j of a tensor, all of one length.
func appendRows(to *ood.Tensor, t ood.Tensor, i, j int) {
	if t.Shape != nil {
		width := product(t.Shape[1:])
		appendElements(to, t, i*width, j*width)
	}
}

// appendElements appends the elements i to j of a tensor.
func appendElements(to *ood.Tensor, t ood.Tensor, i, j int) {
	if t.Strings != nil {
		to.Strings = append(to.Strings, t.Strings[i:j]...)
	} else {
		to.Data = append(to.Data, t.Data[i:j]...)
	}
}

// start takes a free buffer for n or more rows with the shapes of these tensors.
func (f *feeder) start(ctx context.Context, list []ood.Tensor, n, first int) (chunk, bool) {
	select {
	case tensors := <-f.free:
		for i, t := range list {
			data := tensors[i].Data
			if need := f.batch * product(t.Shape[min(1, len(t.Shape)):]); t.Data != nil && cap(data) < need && (f.m.fixed || n >= f.batch) {
				data = make([]float32, 0, need)
			}
			tensors[i] = ood.Tensor{Shape: slices.Clone(t.Shape), Data: data[:0], Strings: tensors[i].Strings[:0], Lengths: tensors[i].Lengths[:0]}
		}
		c := chunk{tensors: tensors, first: first, limit: f.batch}
		if n := f.m.inputs.positions(tensors); n > 0 && f.positions > 0 && !f.m.fixed {
			c.limit = max(1, min(f.batch, f.positions/n))
		}
		return c, true
	case <-ctx.Done():
		return chunk{}, false
	}
}

// send pads a chunk if the model needs it, passes it on and empties it. It does not send an
// empty chunk.
func (f *feeder) send(ctx context.Context, c *chunk) bool {
	if c.n == 0 {
		return true
	}
	c.rows = c.n
	if f.m.fixed {
		c.rows = f.batch
	}
	for i := range c.tensors {
		t := &c.tensors[i]
		if t.Shape == nil {
			continue
		}
		t.Shape[0] = c.n
		last := *t
		for ; t.Shape[0] < c.rows; t.Shape[0]++ {
			appendRows(t, last, c.n-1, c.n)
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
