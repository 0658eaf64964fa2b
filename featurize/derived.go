package featurize

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"sync"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/ood"
)

// derived holds what is made of a model when it is first asked for: the graphs
// that compute gradients, and the one with dropout.
type derived struct {
	mu        sync.Mutex
	gradients map[gradientKey]*differentiated
	dropout   *stochastic
}

func (d *derived) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	errs := []error{d.dropout.close()}
	for _, g := range d.gradients {
		errs = append(errs, g.session.Close())
	}
	d.gradients, d.dropout = nil, nil
	return errors.Join(errs...)
}

// differentiated returns the graphs for a kind of gradient.
func (m *Model) differentiated(ctx context.Context, key gradientKey) (*differentiated, error) {
	m.derived.mu.Lock()
	defer m.derived.mu.Unlock()
	if d := m.derived.gradients[key]; d != nil {
		return d, nil
	}
	g, err := load(m.path)
	if err != nil {
		return nil, err
	}
	if g, err = onnx.Raise(g, filepath.Dir(m.path)); err != nil {
		return nil, fmt.Errorf("%w: %w", ood.ErrNotDifferentiable, err)
	}
	d, err := m.differentiate(ctx, g, key)
	if err != nil {
		return nil, err
	}
	// What building leaves behind is several times the weights, and would stay
	// resident beside the activations.
	debug.FreeOSMemory()
	if m.derived.gradients == nil {
		m.derived.gradients = make(map[gradientKey]*differentiated)
	}
	m.derived.gradients[key] = d
	return d, nil
}
