package featurize

import (
	"context"
	"slices"

	"github.com/attach-uncertainty/attach/ood"
)

// Network is m as methods run it.
func (m *Model) Network() ood.Network { return network{m} }

type network struct{ *Model }

func (n network) Forward(ctx context.Context, x ood.InputBlock) (ood.Batch, error) {
	return n.All(ctx, Slice(x), x.Rows(), nil)
}

func (n network) Gradient(ctx context.Context, x ood.InputBlock, of ood.Scalar) (ood.Batch, ood.Tensor, error) {
	var all ood.Batch
	var gradient ood.Tensor
	for b, err := range n.Gradients(ctx, Slice(x), GradientOptions{Of: of}) {
		if err != nil {
			return ood.Batch{}, ood.Tensor{}, err
		}
		if gradient.Data == nil && b.Features.Rows == x.Rows() {
			return b.Batch, n.named(x, b.Gradient), nil
		}
		if gradient.Data == nil {
			gradient = b.Gradient
			gradient.Shape, gradient.Data = slices.Clone(gradient.Shape), nil
			gradient.Shape[0] = x.Rows()
		}
		if err := appendTo(&all, b.Batch, x.Rows()); err != nil {
			return ood.Batch{}, ood.Tensor{}, err
		}
		gradient.Data = append(gradient.Data, b.Gradient.Data...)
	}
	return all, n.named(x, gradient), nil
}

// named is a gradient under the name that the rows have for the input.
func (n network) named(x ood.InputBlock, gradient ood.Tensor) ood.Tensor {
	if in := n.inputs.find(gradient.Name); in != nil {
		if t := n.inputs.among(x.Tensors, *in); t != nil {
			gradient.Name = t.Name
		}
	}
	return gradient
}
