package main

import (
	"context"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/ood"
)

// differentiable returns why the model cannot be differentiated with respect
// to its input, or nil.
func differentiable(ctx context.Context, model *featurize.Model) error {
	none := func(func(ood.InputBlock, error) bool) {}
	for _, err := range model.Gradients(ctx, none, featurize.GradientOptions{Of: ood.Scalar{Kind: ood.Sum}}) {
		if err != nil {
			return err
		}
	}
	return nil
}
