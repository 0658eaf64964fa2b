package main

import (
	"context"
	"iter"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/inputs"
	"github.com/attach-uncertainty/attach/ood"
)

// setInputs is a set as methods that run the network read it.
type setInputs struct{ set *inputs.Set }

func (s setInputs) Len() int { return s.set.Len() }

func (s setInputs) Select(rows []int) ood.Inputs { return setInputs{s.set.Subset(rows)} }

func (s setInputs) Blocks(ctx context.Context, rows int) iter.Seq2[ood.InputBlock, error] {
	return func(yield func(ood.InputBlock, error) bool) {
		for b, err := range s.set.Blocks(ctx, rows) {
			x := ood.InputBlock{Start: b.Start, Shape: append([]int{b.N}, s.set.Shape()...), Data: b.Data}
			if !yield(x, err) || err != nil {
				return
			}
		}
	}
}

// differentiable returns why the model cannot be differentiated with respect
// to its input, or nil.
func differentiable(ctx context.Context, model *featurize.Model) error {
	none := func(func(featurize.Rows, error) bool) {}
	for _, err := range model.Gradients(ctx, none, featurize.GradientOptions{Of: ood.Scalar{Kind: ood.Sum}}) {
		if err != nil {
			return err
		}
	}
	return nil
}
