package featurize

import (
	"context"
	"fmt"
	"math/bits"
	"slices"

	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/internal/onnx/autodiff"
	"github.com/attach-uncertainty/attach/ood"
)

const (
	// forwardPositions and gradientPositions bound the number of token positions in one
	// run, if the caller does not set the number of rows. Runs that compute gradients have
	// the smaller bound, because their activations are kept in memory.
	forwardPositions  = 64 * 128
	gradientPositions = 8 * 128
)

// ragged reports whether rows differ in length in one of the tensors.
func ragged(list []ood.Tensor) bool {
	return slices.ContainsFunc(list, func(t ood.Tensor) bool { return t.Lengths != nil })
}

// paddedLength rounds a length up, so that fewer different lengths occur. Lengths up to 32
// are kept. The steps beyond 32 are about an eighth of the length.
func paddedLength(n int) int {
	if n <= 32 {
		return n
	}
	step := 1 << (bits.Len(uint(n-1)) - 4)
	return (n + step - 1) / step * step
}

// groups sends the rows of a block that differ in length. Rows of equal padded length share
// a chunk, and longer rows come first. Rows are padded only if a mask among the inputs
// covers the padding. Otherwise only rows of exactly equal length share a chunk.
func (f *feeder) groups(ctx context.Context, list []ood.Tensor, hashes [][16]byte, n, first int) bool {
	lengths, err := f.m.padded(list, n, first)
	if err != nil {
		return f.emit(ctx, chunk{err: err})
	}
	order := make([]int, n)
	for row := range order {
		order[row] = row
	}
	ends := make([][]int, len(list)) // where each row ends in each ragged tensor
	for i, t := range list {
		end := 0
		for _, own := range t.Lengths {
			end += own * product(t.Shape[2:])
			ends[i] = append(ends[i], end)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return slices.Compare(lengths[b], lengths[a]) })
	var c chunk
	shaped := slices.Clone(list)
	for k, row := range order {
		if c.n == 0 {
			for i, t := range list {
				if shaped[i].Shape = slices.Clone(t.Shape); t.Lengths != nil {
					shaped[i].Shape[1] = lengths[row][i]
				}
			}
			var ok bool
			if c, ok = f.start(ctx, shaped, 0, first); !ok {
				return false
			}
			c.places = []int{}
		}
		for i, t := range list {
			if t.Lengths == nil {
				appendRows(&c.tensors[i], t, row, row+1)
				continue
			}
			t.Name = f.m.inputs[i].name
			own, width := t.Lengths[row], product(t.Shape[2:])
			c.tensors[i].Lengths = append(c.tensors[i].Lengths, own)
			f.m.appendPadded(&c.tensors[i], t, ends[i][row]-own*width, ends[i][row], lengths[row][i]*width)
		}
		if f.hashes {
			c.hashes = append(c.hashes, hashes[row])
		}
		c.places, c.n = append(c.places, row), c.n+1
		c.last = k == n-1
		if c.last || c.n == c.limit || !slices.Equal(lengths[row], lengths[order[k+1]]) {
			if !f.send(ctx, &c) {
				return false
			}
		}
	}
	return true
}

// padded returns the padded length of each of n rows in each tensor. It is 0 in tensors
// whose rows all have one length. first is the number of the first row.
func (m *Model) padded(list []ood.Tensor, n, first int) ([][]int, error) {
	all := make([][]int, n)
	for row := range all {
		all[row] = make([]int, len(list))
	}
	for i, t := range list {
		if t.Lengths == nil {
			continue
		}
		in := m.inputs[i]
		fixed := in.dims != nil && in.dims[1] >= 0
		covered := fixed && m.texts != nil && roleOf(in.name) != noRole // the model was trained with the padding of its tokenizer
		for j, mask := range m.inputs {
			covered = covered || mask.masks() && slices.Equal(list[j].Lengths, t.Lengths) && (fixed || m.pads)
		}
		for row, own := range t.Lengths {
			length := own
			switch {
			case own == 0:
				return nil, fmt.Errorf("row %d (counted from 0) of the input %q is empty", first+row, in.name)
			case fixed:
				length = in.dims[1]
			case covered:
				length = min(paddedLength(own), t.Shape[1])
			}
			if length > own && !covered {
				return nil, fmt.Errorf("row %d (counted from 0) of the input %q has length %d, the model takes %d, and it has no mask input for padding", first+row, in.name, own, length)
			}
			all[row][i] = length
		}
	}
	return all, nil
}

// positions returns the number of token positions in a row, or 0 if the model takes no
// tokens. Attention and recurrent layers need memory for each position.
func (list inputs) positions(tensors []ood.Tensor) int {
	n := 0
	for i, in := range list {
		if _, _, integers := in.limits(); len(tensors[i].Shape) == 2 && (integers || in.masks()) && in.dims != nil && in.dims[1] < 0 {
			n = max(n, tensors[i].Shape[1])
		}
	}
	return n
}

// inPlaces joins the results of several chunks and puts the rows back into the order of
// their block.
func inPlaces(all []ood.Batch, places []int) (ood.Batch, error) {
	var b ood.Batch
	for _, more := range all {
		if err := batchparts.Append(&b, more); err != nil {
			return b, err
		}
	}
	return b.Select(inverse(places)), nil
}

// gradientInPlaces does the same as inPlaces for gradients, which are as long as their
// rows.
func gradientInPlaces(all []GradientBatch, places []int) (GradientBatch, error) {
	parts := make([]ood.Batch, len(all))
	var rows []ood.Tensor
	joined := all[0].Gradient
	joined.Shape = slices.Clone(joined.Shape)
	along := 1 // index of the first axis that must have one size for all rows
	if joined.Lengths != nil {
		along = 2
	}
	for i, g := range all {
		parts[i] = g.Batch
		if !slices.Equal(g.Gradient.Shape[along:], joined.Shape[along:]) {
			return GradientBatch{}, &autodiff.TensorError{Tensor: joined.Name, Reason: fmt.Sprintf("its rows differ in more than the length of their first axis: some are %s, others %s",
				times(joined.Shape), times(g.Gradient.Shape))}
		}
		if along == 2 {
			joined.Shape[1] = max(joined.Shape[1], g.Gradient.Shape[1])
		}
		for row := range g.Gradient.Shape[0] {
			rows = append(rows, ood.InputBlock{Tensors: []ood.Tensor{g.Gradient}}.Slice(row, row+1).Tensors[0])
		}
	}
	b, err := inPlaces(parts, places)
	joined.Shape[0], joined.Data, joined.Lengths = len(rows), nil, nil
	for _, at := range inverse(places) {
		joined.Data = append(joined.Data, rows[at].Data...)
		joined.Lengths = append(joined.Lengths, rows[at].Lengths...)
	}
	return GradientBatch{Batch: b, Gradient: joined}, err
}

// inverse returns the inverse of a permutation of 0, …, n−1.
func inverse(places []int) []int {
	at := make([]int, len(places))
	for k, place := range places {
		at[place] = k
	}
	return at
}

// cut removes the padding from a tensor that was computed from a chunk. along is the index
// of the input that has the same second axis as the tensor, or −1. Nothing is removed if
// the rows of that input have one length.
func (m *Model) cut(c chunk, t ood.Tensor, along int) ood.Tensor {
	if c.places == nil || along < 0 || c.tensors[along].Lengths == nil {
		return t
	}
	t.Lengths = slices.Clone(c.tensors[along].Lengths)
	width := product(t.Shape[2:])
	var data []float32
	for row, own := range t.Lengths {
		at := row * t.Shape[1]
		if m.padsLeft() {
			at += t.Shape[1] - own
		}
		data = append(data, t.Data[at*width:(at+own)*width]...)
	}
	t.Data = data
	return t
}
