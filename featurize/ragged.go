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

// Bounds of the positions in one run of rows of tokens, where the caller does not
// say how many rows there are in one: of a run forward, and of one that keeps its
// activations.
const (
	// Bounds of the positions in one run of rows of tokens, if the caller does not set the
	// number of rows: for a forward run, and for a run that keeps its activations.
	forwardPositions  = 64 * 128
	gradientPositions = 8 * 128
)

func ragged(list []ood.Tensor) bool {
	return slices.ContainsFunc(list, func(t ood.Tensor) bool { return t.Lengths != nil })
}

// paddedLength rounds a length beyond 32 up, in steps of about an eighth.
func paddedLength(n int) int {
	if n <= 32 {
		return n
	}
	step := 1 << (bits.Len(uint(n-1)) - 4)
	return (n + step - 1) / step * step
}

// groups sends the rows of a block that differ in length. Rows of the same padded length share
// a chunk; the longest come first. Tensors are padded if a mask among the inputs covers them.
// Otherwise only rows of exactly the same length share a chunk.
func (f *feeder) groups(ctx context.Context, list []ood.Tensor, hashes [][16]byte, n, first int) bool {
	lengths, err := f.m.padded(list, n, first)
	if err != nil {
		return f.emit(ctx, chunk{err: err})
	}
	order := make([]int, n)
	for row := range order {
		order[row] = row
	}
	ends := make([][]int, len(list)) // ends of the rows in ragged tensors
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

// padded returns the padded length of each of n rows in each tensor, or 0 in tensors whose
// rows do not differ in length.
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
		covered := fixed && m.texts != nil && roleOf(in.name) != noRole // the tokenizer pads to a length that the model was trained with
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

// positions is the number of positions in a row that attention or a recurrence runs over, or
// 0.
func (list inputs) positions(tensors []ood.Tensor) int {
	n := 0
	for i, in := range list {
		if _, _, integers := in.limits(); len(tensors[i].Shape) == 2 && (integers || in.masks()) && in.dims != nil && in.dims[1] < 0 {
			n = max(n, tensors[i].Shape[1])
		}
	}
	return n
}

// inPlaces puts rows of several chunks back into the order of their block.
func inPlaces(all []ood.Batch, places []int) (ood.Batch, error) {
	var b ood.Batch
	for _, more := range all {
		if err := batchparts.Append(&b, more); err != nil {
			return b, err
		}
	}
	return b.Select(inverse(places)), nil
}

// gradientInPlaces is inPlaces for gradients, which are as long as their rows.
func gradientInPlaces(all []GradientBatch, places []int) (GradientBatch, error) {
	parts := make([]ood.Batch, len(all))
	var rows []ood.Tensor
	joined := all[0].Gradient
	joined.Shape = slices.Clone(joined.Shape)
	along := 1 // first of the axes that rows share
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

// inverse returns the inverse of a permutation of 0…n−1.
func inverse(places []int) []int {
	at := make([]int, len(places))
	for k, place := range places {
		at[place] = k
	}
	return at
}

// cut removes the padding from a tensor of a chunk. Along is the input whose rows differ in
// length and whose second axis is also the tensor's, or −1.
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
