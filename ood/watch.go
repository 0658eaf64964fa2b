package ood

import (
	"context"
	"iter"
)

// watched is c with inputs that report how much of both sides was read: for
// methods that run the network, how much was scored.
func (c Comparison) watched(progress func(share float64)) Comparison {
	total := float64(c.In.Len() + c.Out.Len())
	watch := func(in Inputs, before int) Inputs {
		if in == nil {
			return nil
		}
		return watchedInputs{in, func(rows int) { progress(float64(before+rows) / total) }}
	}
	c.In.Inputs, c.Out.Inputs = watch(c.In.Inputs, 0), watch(c.Out.Inputs, c.In.Len())
	return c
}

type watchedInputs struct {
	Inputs
	read func(rows int)
}

// Select is not watched: some rows say nothing about the share of all.
func (w watchedInputs) Select(rows []int) Inputs { return SelectInputs(w.Inputs, rows) }

func (w watchedInputs) Blocks(ctx context.Context, rows int) iter.Seq2[InputBlock, error] {
	return func(yield func(InputBlock, error) bool) {
		for b, err := range w.Inputs.Blocks(ctx, rows) {
			if !yield(b, err) {
				return
			}
			w.read(b.Start + b.Rows())
		}
	}
}
