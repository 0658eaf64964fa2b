package featurize

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"sync"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/ood"
)

// Network returns the interface through which detection methods run the model.
func (m *Model) Network() ood.Network { return network{m} }

// network implements ood.Network.
type network struct{ *Model }

// Forward returns the features and logits of rows. It implements ood.Network.
func (n network) Forward(ctx context.Context, x ood.InputBlock) (ood.Batch, error) {
	return n.All(ctx, oneBlock(x), x.Len(), nil)
}

// Gradient returns the features and logits of rows, and the gradient of a scalar of each
// row's logits. It implements ood.Network.
func (n network) Gradient(ctx context.Context, x ood.InputBlock, of ood.Scalar) (ood.Batch, ood.Tensor, error) {
	var all []GradientBatch
	for b, err := range n.Gradients(ctx, oneBlock(x), GradientOptions{Of: of}) {
		if err != nil {
			return ood.Batch{}, ood.Tensor{}, err
		}
		all = append(all, b)
	}
	if len(all) == 0 {
		return ood.Batch{}, ood.Tensor{}, nil
	}
	if len(all) > 1 {
		order := make([]int, x.Len())
		for row := range order {
			order[row] = row
		}
		joined, err := restoreGradientOrder(all, order)
		if err != nil {
			return ood.Batch{}, ood.Tensor{}, err
		}
		all[0] = joined
	}
	return all[0].Batch, n.renameGradient(x, all[0].Gradient), nil
}

// renameGradient gives a gradient with respect to an input the name that the input has in
// the rows. This name may differ from the one in the model.
func (n network) renameGradient(x ood.InputBlock, gradient ood.Tensor) ood.Tensor {
	if in := n.inputs.byName(gradient.Name); in != nil {
		if t := n.inputs.tensorFor(x.Tensors, *in); t != nil {
			gradient.Name = t.Name
		}
	}
	return gradient
}

// derivedGraphs holds graphs that are built from a model on first use: graphs that compute
// gradients, also of OOD scores, and the graph with dropout.
type derivedGraphs struct {
	mu        sync.Mutex
	gradients map[gradientKey]*gradientGraph
	dropout   *dropoutModel
	scores    map[*attach.Bundle]*scoreGradient
}

func (d *derivedGraphs) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	errs := []error{d.dropout.close()}
	for _, g := range d.gradients {
		errs = append(errs, g.session.Close())
	}
	for _, s := range d.scores {
		errs = append(errs, s.session.Close())
	}
	d.gradients, d.dropout, d.scores = nil, nil, nil
	return errors.Join(errs...)
}

// gradientGraph returns the graph for a kind of gradient, and builds it on the first call.
func (m *Model) gradientGraph(ctx context.Context, key gradientKey) (*gradientGraph, error) {
	m.derived.mu.Lock()
	defer m.derived.mu.Unlock()
	if d := m.derived.gradients[key]; d != nil {
		return d, nil
	}
	g, err := load(m.path)
	if err != nil {
		return nil, err
	}
	if g, err = onnx.Upgrade(g, filepath.Dir(m.path)); err != nil {
		return nil, fmt.Errorf("%w: %w", ood.ErrNotDifferentiable, err)
	}
	d, err := m.newGradientGraph(ctx, g, key)
	if err != nil {
		return nil, err
	}
	// Building the graph allocates several times the size of the weights. Without this
	// call, that memory would stay resident in addition to the activations.
	debug.FreeOSMemory()
	if m.derived.gradients == nil {
		m.derived.gradients = make(map[gradientKey]*gradientGraph)
	}
	m.derived.gradients[key] = d
	return d, nil
}
