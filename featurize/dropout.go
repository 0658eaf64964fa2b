package featurize

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/ood"
)

// Dropouts returns the number of the model's own dropout layers. It implements ood.Network.
func (n network) Dropouts() int { return n.dropouts }

// Dropout runs the model several times with dropout. It implements ood.Network. The masks
// are drawn here and passed to the graph, so that the same elements are dropped on every
// execution provider. All rows get the same mask. If the first axis of a tensor is not the
// row axis, one mask covers the whole tensor.
func (n network) Dropout(ctx context.Context, x ood.InputBlock, passes int, p float64, seed uint64) ([]float32, error) {
	switch {
	case passes < 1:
		return nil, fmt.Errorf("%d passes with dropout; at least one is needed", passes)
	case p < 0 || p >= 1 || p != p:
		return nil, fmt.Errorf("the dropout rate is %v, it must be in [0, 1)", p)
	case n.dropouts == 0 && p == 0:
		return nil, ood.ErrNoDropout
	}
	s, err := n.dropoutModel(ctx)
	if err != nil {
		return nil, err
	}
	var out []float32
	type block struct {
		rows   []int     // row numbers
		c      int       // number of logits in a row
		logits []float32 // shape passes×rows×c
	}
	run := func(ctx context.Context, c chunk) (block, error) {
		logits, err := n.runDropout(ctx, s, c, passes, p, seed)
		b := block{c: len(logits) / (passes * c.n), logits: logits}
		for i := range c.n {
			b.rows = append(b.rows, c.row(i))
		}
		return b, err
	}
	for b, err := range stream(ctx, newFeeder(n.Model, n.batchSize, n.maxPositions), oneBlock(x), run, nil) {
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = make([]float32, passes*x.Len()*b.c)
		}
		for s := range passes {
			for i, row := range b.rows {
				start := (s*len(b.rows) + i) * b.c
				copy(out[(s*x.Len()+row)*b.c:], b.logits[start:start+b.c])
			}
		}
	}
	return out, nil
}

// dropoutModel returns the model split for dropout, and builds it on the first call.
func (m *Model) dropoutModel(ctx context.Context) (*dropoutModel, error) {
	m.derived.mu.Lock()
	defer m.derived.mu.Unlock()
	if m.derived.dropout != nil {
		return m.derived.dropout, nil
	}
	g, err := load(m.path)
	if err != nil {
		return nil, err
	}
	s, err := m.newDropoutModel(ctx, g)
	if err != nil {
		return nil, fmt.Errorf("cannot run the model with dropout: %w", err)
	}
	m.derived.dropout = s
	return s, nil
}

// runDropout returns the logits of a chunk's n rows with dropout, as passes×n×c numbers,
// where c is the number of outputs.
func (m *Model) runDropout(ctx context.Context, s *dropoutModel, c chunk, passes int, p float64, seed uint64) ([]float32, error) {
	x, err := m.inputs.newTensors(c.tensors)
	if err != nil {
		return nil, err
	}
	defer closeAll(x)
	out, err := s.first.Run(ctx, x)
	if err != nil {
		return nil, runError(ctx, c, err)
	}
	defer closeAll(out)
	in := make([]*ort.Tensor, len(s.layers))
	masks := make([][]float32, len(s.layers))
	defer func() { closeAll(in[:len(s.layers)]) }()
	for i := range s.layers {
		shape := ort.View[int64](out[s.shapeOutputs[i]])
		size := int64(1)
		for _, d := range shape {
			size *= d
		}
		masks[i] = make([]float32, size)
		if in[i], err = ort.NewTensor(shape, masks[i]); err != nil {
			return nil, err
		}
	}
	for _, index := range s.secondInputs {
		if index < 0 {
			in = append(in, x[-1-index])
		} else {
			in = append(in, out[index])
		}
	}
	var all []float32
	for pass := range passes {
		for i, l := range s.layers {
			rows, rate := 1, l.rate
			if shape := in[i].Shape(); len(shape) > 0 && int(shape[0]) == c.rows {
				rows = c.rows
			}
			if l.node == nil {
				rate = p
			}
			fillDropMask(masks[i], rows, rate, seed, pass, i)
		}
		logits, err := s.second.Run(ctx, in)
		if err != nil {
			return nil, runError(ctx, c, err)
		}
		z, err := m.logitsOf(c, logits[0])
		closeAll(logits)
		if err != nil {
			return nil, err
		}
		all = append(all, z.Data...)
	}
	return all, nil
}

// fillDropMask fills a mask of shape rows×width. It sets an element to 0 with probability
// rate, and to 1/(1−rate) otherwise. All rows get the same mask, which depends only on the
// width, the rate, the seed, the pass and the layer. So each pass runs one thinned network,
// and the result for a row does not depend on the row's position.
func fillDropMask(mask []float32, rows int, rate float64, seed uint64, pass, layer int) {
	if rows == 0 {
		return
	}
	width := len(mask) / rows
	keep := float32(1 / (1 - rate))
	limit := uint64(rate * (1 << 32))
	// PCG generators with similar seeds produce similar numbers, so the seeds are hashed
	// first.
	h := splitMix(splitMix(seed+uint64(pass)) + uint64(layer))
	rng := rand.NewPCG(h, splitMix(h))
	first := mask[:width]
	bits := uint64(0)
	for j := range first {
		if j%2 == 0 {
			bits = rng.Uint64()
		} else {
			bits >>= 32
		}
		first[j] = keep
		if bits&(1<<32-1) < limit {
			first[j] = 0
		}
	}
	for i := 1; i < rows; i++ {
		copy(mask[i*width:], first)
	}
}

// splitMix hashes x as SplitMix64 does (Steele, Lea and Flood, Fast splittable pseudorandom
// number generators, OOPSLA 2014).
func splitMix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
