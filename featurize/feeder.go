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
	tensors []ood.Tensor // in the order of the inputs; a tensor without a shape means the input's default
	rows    int          // number of rows, including padding rows
	n       int          // number of rows without padding rows
	first   int          // number of the first row; if order is set, of the block's first row
	maxRows int          // largest number of rows in this chunk
	hashes  [][16]byte   // hashes of the rows, or nil
	// order lists the positions of the rows in their block if the rows do not run in the
	// order of the block. Otherwise it is nil. last marks the last chunk of such a block.
	order []int
	last  bool
	err   error
}

// row returns the number of the row at index i of the chunk.
func (c chunk) row(i int) int {
	if c.order != nil {
		i = c.order[i]
	}
	return c.first + i
}

// feeder divides blocks of rows into chunks, one for each run of the model. It has two
// buffers, so that it can fill one while the model reads the other.
type feeder struct {
	model        *Model
	batchSize    int  // largest number of rows in a chunk
	maxPositions int  // largest number of token positions in a chunk; 0 means no bound
	hashRows     bool // whether to hash rows
	filled       chan chunk
	buffers      chan []ood.Tensor
}

func newFeeder(m *Model, batch, positions int) *feeder {
	f := &feeder{model: m, batchSize: batch, maxPositions: positions, filled: make(chan chunk), buffers: make(chan []ood.Tensor, 2)}
	f.buffers <- make([]ood.Tensor, len(m.inputs))
	f.buffers <- make([]ood.Tensor, len(m.inputs))
	return f
}

// feed sends chunks to f.filled until the rows end or ctx is cancelled. If reading fails or
// a row is invalid, the last chunk holds the error. At the end, feed closes f.filled.
func (f *feeder) feed(ctx context.Context, rows iter.Seq2[ood.InputBlock, error]) {
	defer close(f.filled)
	if rows == nil {
		return
	}
	var c chunk // the chunk to fill; n is 0 if none was started
	next := 0   // number of the next row
	for block, err := range f.model.tokenizeBlocks(rows) {
		var list []ood.Tensor
		if err == nil {
			list, err = f.model.inputs.match(block, next)
		}
		if err != nil {
			// The rows before the invalid block are still valid.
			if f.send(ctx, &c) {
				f.emit(ctx, chunk{err: err})
			}
			return
		}
		var hashes [][16]byte
		if f.hashRows {
			hashes = f.model.rowHashes(list)
		}
		if isRagged(list) {
			if !f.send(ctx, &c) || !f.sendRagged(ctx, list, hashes, block.Len(), next) {
				return
			}
			next += block.Len()
			continue
		}
		if c.n > 0 && !slices.EqualFunc(c.tensors, list, sameRowShape) && !f.send(ctx, &c) {
			return
		}
		for at, n := 0, block.Len(); at < n; {
			if c.n == 0 {
				var ok bool
				if c, ok = f.newChunk(ctx, list, n, next); !ok {
					return
				}
			}
			k := min(c.maxRows-c.n, n-at)
			for i := range c.tensors {
				appendRows(&c.tensors[i], list[i], at, at+k)
			}
			if f.hashRows {
				c.hashes = append(c.hashes, hashes[at:at+k]...)
			}
			c.n, at, next = c.n+k, at+k, next+k
			if c.n == c.maxRows && !f.send(ctx, &c) {
				return
			}
		}
	}
	f.send(ctx, &c)
}

// rowHashes returns a hash for each row of a block. Hashes are computed before padding, so
// that they do not depend on the other rows.
func (m *Model) rowHashes(list []ood.Tensor) [][16]byte {
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

// sameRowShape reports whether the rows of two tensors have the same shape.
func sameRowShape(a, b ood.Tensor) bool {
	return (a.Shape == nil) == (b.Shape == nil) && (a.Shape == nil || slices.Equal(a.Shape[1:], b.Shape[1:]))
}

// appendRows appends the rows i to j−1 of t to another tensor. All rows of t must have the
// same length.
func appendRows(to *ood.Tensor, t ood.Tensor, i, j int) {
	if t.Shape != nil {
		width := product(t.Shape[1:])
		appendElements(to, t, i*width, j*width)
	}
}

// appendElements appends the elements i to j−1 of t to another tensor.
func appendElements(to *ood.Tensor, t ood.Tensor, i, j int) {
	if t.Strings != nil {
		to.Strings = append(to.Strings, t.Strings[i:j]...)
	} else {
		to.Data = append(to.Data, t.Data[i:j]...)
	}
}

// newChunk starts a chunk in a free buffer. The rows of the chunk will have the shapes of
// the tensors in list. At least n rows are expected, and first is the number of the first
// row. newChunk returns false if ctx is cancelled.
func (f *feeder) newChunk(ctx context.Context, list []ood.Tensor, n, first int) (chunk, bool) {
	select {
	case tensors := <-f.buffers:
		for i, t := range list {
			data := tensors[i].Data
			if need := f.batchSize * product(t.Shape[min(1, len(t.Shape)):]); t.Data != nil && cap(data) < need && (f.model.fixedBatch || n >= f.batchSize) {
				data = make([]float32, 0, need)
			}
			tensors[i] = ood.Tensor{Shape: slices.Clone(t.Shape), Data: data[:0], Strings: tensors[i].Strings[:0], Lengths: tensors[i].Lengths[:0]}
		}
		c := chunk{tensors: tensors, first: first, maxRows: f.batchSize}
		if n := f.model.inputs.positionsPerRow(tensors); n > 0 && f.maxPositions > 0 && !f.model.fixedBatch {
			c.maxRows = max(1, min(f.batchSize, f.maxPositions/n))
		}
		return c, true
	case <-ctx.Done():
		return chunk{}, false
	}
}

// send pads a chunk to the fixed batch if the model has one, emits it and empties it. An
// empty chunk is not sent. send returns false if ctx is cancelled.
func (f *feeder) send(ctx context.Context, c *chunk) bool {
	if c.n == 0 {
		return true
	}
	c.rows = c.n
	if f.model.fixedBatch {
		c.rows = f.batchSize
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

// emit passes a chunk to the model. It returns false if ctx is cancelled.
func (f *feeder) emit(ctx context.Context, c chunk) bool {
	select {
	case f.filled <- c:
		return true
	case <-ctx.Done():
		return false
	}
}
