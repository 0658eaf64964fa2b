package compare

import (
	"context"
	"iter"
	"slices"

	"github.com/attach-uncertainty/attach/ood"
)

// watched returns the batches with inputs that report how much of all of them
// was read: for methods that run the network, how much was scored.
func watched(batches []ood.Batch, progress func(share float64)) []ood.Batch {
	total := 0
	for _, b := range batches {
		total += b.Len()
	}
	out := slices.Clone(batches)
	before := 0
	for i, b := range batches {
		if b.Inputs != nil {
			start := before
			out[i].Inputs = watchedInputs{b.Inputs, func(rows int) { progress(float64(start+rows) / float64(total)) }}
		}
		before += b.Len()
	}
	return out
}

type watchedInputs struct {
	ood.Inputs
	read func(rows int)
}

// Select is not watched: some rows say nothing about the share of all.
func (w watchedInputs) Select(rows []int) ood.Inputs { return ood.SelectInputs(w.Inputs, rows) }

func (w watchedInputs) Blocks(ctx context.Context, rows int) iter.Seq2[ood.InputBlock, error] {
	return func(yield func(ood.InputBlock, error) bool) {
		for b, err := range w.Inputs.Blocks(ctx, rows) {
			if !yield(b, err) {
				return
			}
			w.read(b.Start + b.Rows())
		}
	}
}
