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

// isRagged reports whether rows differ in length in one of the tensors.
func isRagged(list []ood.Tensor) bool {
	return slices.ContainsFunc(list, func(t ood.Tensor) bool { return t.Lengths != nil })
}

// paddedLength rounds a length up, so that fewer different lengths occur. Lengths up to 32
// are kept. Beyond 32, lengths are rounded up by less than an eighth.
func paddedLength(n int) int {
	if n <= 32 {
		return n
	}
	step := 1 << (bits.Len(uint(n-1)) - 4)
	return (n + step - 1) / step * step
}

// sendRagged sends the rows of a block that differ in length. Rows of equal padded length
// share a chunk, and longer rows come first. Rows are padded only if the model ignores
// padding. Otherwise only rows of exactly equal length share a chunk. sendRagged returns
// false if ctx is cancelled.
func (f *feeder) sendRagged(ctx context.Context, list []ood.Tensor, hashes [][16]byte, n, first int) bool {
	lengths, err := f.model.paddedLengths(list, n, first)
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
		for _, rowLength := range t.Lengths {
			end += rowLength * product(t.Shape[2:])
			ends[i] = append(ends[i], end)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return slices.Compare(lengths[b], lengths[a]) })
	var c chunk
	paddedList := slices.Clone(list)
	for k, row := range order {
		if c.n == 0 {
			for i, t := range list {
				if paddedList[i].Shape = slices.Clone(t.Shape); t.Lengths != nil {
					paddedList[i].Shape[1] = lengths[row][i]
				}
			}
			var ok bool
			if c, ok = f.newChunk(ctx, paddedList, 0, first); !ok {
				return false
			}
			c.order = []int{}
		}
		for i, t := range list {
			if t.Lengths == nil {
				appendRows(&c.tensors[i], t, row, row+1)
				continue
			}
			t.Name = f.model.inputs[i].name
			rowLength, width := t.Lengths[row], product(t.Shape[2:])
			c.tensors[i].Lengths = append(c.tensors[i].Lengths, rowLength)
			f.model.appendPadded(&c.tensors[i], t, ends[i][row]-rowLength*width, ends[i][row], lengths[row][i]*width)
		}
		if f.hashRows {
			c.hashes = append(c.hashes, hashes[row])
		}
		c.order, c.n = append(c.order, row), c.n+1
		c.last = k == n-1
		if c.last || c.n == c.maxRows || !slices.Equal(lengths[row], lengths[order[k+1]]) {
			if !f.send(ctx, &c) {
				return false
			}
		}
	}
	return true
}

// paddedLengths returns the padded length of each of n rows in each tensor. It is 0 in
// tensors whose rows all have one length. Padding needs a mask among the inputs, or a
// tokenizer and an input of fixed length. first is the number of the first row.
func (m *Model) paddedLengths(list []ood.Tensor, n, first int) ([][]int, error) {
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
		canMask := fixed && m.tokenizer != nil && roleOf(in.name) != noRole // the model was trained with the padding of its tokenizer
		for j, mask := range m.inputs {
			canMask = canMask || mask.isMask() && slices.Equal(list[j].Lengths, t.Lengths) && (fixed || m.canPad)
		}
		for row, rowLength := range t.Lengths {
			length := rowLength
			switch {
			case rowLength == 0:
				return nil, fmt.Errorf("row %d (counted from 0) of the input %q is empty", first+row, in.name)
			case fixed:
				length = in.dims[1]
			case canMask:
				length = min(paddedLength(rowLength), t.Shape[1])
			}
			if length > rowLength && !canMask {
				return nil, fmt.Errorf("row %d (counted from 0) of the input %q has length %d, the model takes %d, and it has no mask input for padding", first+row, in.name, rowLength, length)
			}
			all[row][i] = length
		}
	}
	return all, nil
}

// positionsPerRow returns the number of token positions in a row, or 0 if the model takes no
// tokens. Attention and recurrent layers need memory for each position.
func (list inputs) positionsPerRow(tensors []ood.Tensor) int {
	n := 0
	for i, in := range list {
		if _, _, integers := in.limits(); len(tensors[i].Shape) == 2 && (integers || in.isMask()) && in.dims != nil && in.dims[1] < 0 {
			n = max(n, tensors[i].Shape[1])
		}
	}
	return n
}

// restoreOrder joins the results of several chunks and puts the rows back into the order of
// their block.
func restoreOrder(all []ood.Batch, order []int) (ood.Batch, error) {
	var b ood.Batch
	for _, more := range all {
		if err := batchparts.Append(&b, more); err != nil {
			return b, err
		}
	}
	return b.Select(inverse(order)), nil
}

// restoreGradientOrder does the same as restoreOrder for batches with gradients. Gradients
// may differ in length, like their rows.
func restoreGradientOrder(all []GradientBatch, order []int) (GradientBatch, error) {
	parts := make([]ood.Batch, len(all))
	var rows []ood.Tensor
	joined := all[0].Gradient
	joined.Shape = slices.Clone(joined.Shape)
	sharedAxis := 1 // index of the first axis that must have one size for all rows
	if joined.Lengths != nil {
		sharedAxis = 2
	}
	for i, g := range all {
		parts[i] = g.Batch
		if !slices.Equal(g.Gradient.Shape[sharedAxis:], joined.Shape[sharedAxis:]) {
			return GradientBatch{}, &autodiff.TensorError{Tensor: joined.Name, Reason: fmt.Sprintf("its rows differ in more than the length of their first axis: some are %s, others %s",
				formatShape(joined.Shape), formatShape(g.Gradient.Shape))}
		}
		if sharedAxis == 2 {
			joined.Shape[1] = max(joined.Shape[1], g.Gradient.Shape[1])
		}
		for row := range g.Gradient.Shape[0] {
			rows = append(rows, ood.InputBlock{Tensors: []ood.Tensor{g.Gradient}}.Slice(row, row+1).Tensors[0])
		}
	}
	b, err := restoreOrder(parts, order)
	joined.Shape[0], joined.Data, joined.Lengths = len(rows), nil, nil
	for _, index := range inverse(order) {
		joined.Data = append(joined.Data, rows[index].Data...)
		joined.Lengths = append(joined.Lengths, rows[index].Lengths...)
	}
	return GradientBatch{Batch: b, Gradient: joined}, err
}

// inverse returns the inverse of a permutation of 0, …, n−1.
func inverse(perm []int) []int {
	inverted := make([]int, len(perm))
	for k, place := range perm {
		inverted[place] = k
	}
	return inverted
}

// trimPadding removes the padding from a tensor that was computed from a chunk. lengthInput
// is the index of the input that has the same second axis as the tensor, or −1. Nothing is
// removed if the rows of that input have one length.
func (m *Model) trimPadding(c chunk, t ood.Tensor, lengthInput int) ood.Tensor {
	if c.order == nil || lengthInput < 0 || c.tensors[lengthInput].Lengths == nil {
		return t
	}
	t.Lengths = slices.Clone(c.tensors[lengthInput].Lengths)
	width := product(t.Shape[2:])
	var data []float32
	for row, length := range t.Lengths {
		start := row * t.Shape[1]
		if m.padsLeft() {
			start += t.Shape[1] - length
		}
		data = append(data, t.Data[start*width:(start+length)*width]...)
	}
	t.Data = data
	return t
}
