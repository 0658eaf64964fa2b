package featurize

import (
	"context"

	"github.com/attach-uncertainty/attach/ood"
)

// Network is m as methods run it.
func (m *Model) Network() ood.Network { return network{m} }

type network struct{ *Model }

func (n network) Forward(ctx context.Context, x ood.InputBlock) (ood.Batch, error) {
	return n.All(ctx, Slice(x.Shape, x.Data), x.Rows(), nil)
}

func (n network) Gradient(ctx context.Context, x ood.InputBlock, of ood.Scalar) (ood.Batch, []float32, error) {
	var all ood.Batch
	var gradient []float32
	for b, err := range n.Gradients(ctx, Slice(x.Shape, x.Data), GradientOptions{Of: of}) {
		if err != nil {
			return ood.Batch{}, nil, err
		}
		if gradient == nil && b.Features.Rows == x.Rows() {
			return b.Batch, b.Gradient, nil
		}
		if gradient == nil {
			gradient = make([]float32, 0, len(x.Data))
		}
		if err := appendTo(&all, b.Batch, x.Rows()); err != nil {
			return ood.Batch{}, nil, err
		}
		gradient = append(gradient, b.Gradient...)
	}
	return all, gradient, nil
}
