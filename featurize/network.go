package featurize

import (
	"context"

	"github.com/attach-uncertainty/attach/ood"
)

// Network is m as methods run it.
func (m *Model) Network() ood.Network { return network{m} }

type network struct{ *Model }

func (n network) Forward(ctx context.Context, x ood.InputBlock) (ood.Batch, error) {
	return n.All(ctx, single(x), x.Rows(), nil)
}

func (n network) Gradient(ctx context.Context, x ood.InputBlock, of ood.Scalar) (ood.Batch, ood.Tensor, error) {
	var all []GradientBatch
	for b, err := range n.Gradients(ctx, single(x), GradientOptions{Of: of}) {
		if err != nil {
			return ood.Batch{}, ood.Tensor{}, err
		}
		all = append(all, b)
	}
	if len(all) == 0 {
		return ood.Batch{}, ood.Tensor{}, nil
	}
	if len(all) > 1 {
		places := make([]int, x.Rows())
		for row := range places {
			places[row] = row
		}
		joined, err := gradientInPlaces(all, places)
		if err != nil {
			return ood.Batch{}, ood.Tensor{}, err
		}
		all[0] = joined
	}
	return all[0].Batch, n.named(x, all[0].Gradient), nil
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
