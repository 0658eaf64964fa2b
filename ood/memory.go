package ood

import (
	"errors"
	"fmt"

	"github.com/attach-uncertainty/attach/internal/rows"
)

// ErrMemory is wrapped by the error for a fit that would hold too much beside its
// rows, which says whose and of what.
var ErrMemory = errors.New("takes more than 8 GB of memory")

// Check says what a fit of one configuration would lack, or is nil: a *NeedError
// for the first of the method's needs that t lacks, an error that wraps ErrMemory,
// or one of the parameters.
func (m Method) Check(t Training, p Params) error {
	if err := m.checkNeeds(t); err != nil {
		return err
	}
	own, err := m.resolve(p)
	if err != nil || m.Memory == nil || m.Memory(t, own) <= rows.MostMemory {
		return err
	}
	what := fmt.Sprintf("%d rows of %d features", t.Len(), t.Features.Cols)
	if t.Logits.Cols > 0 {
		what += fmt.Sprintf(", %d logits", t.Logits.Cols)
	}
	if m.Needs.Layers {
		for _, l := range t.Layers {
			what += fmt.Sprintf(", %d in a layer", l.Cols)
		}
	}
	if own, err := m.resolve(nil); err == nil && m.Memory(t, own) <= rows.MostMemory {
		what += ", with " + p.String()
	}
	return fmt.Errorf("method %q %w for %s", m.Name, ErrMemory, what)
}
