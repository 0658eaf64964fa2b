package fitting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

// widthPrefix begins the names of saved parameters that hold widths. No method uses such
// names in its own state.
const widthPrefix = "width of "

// State returns the state of the scorer, which Restore reads.
func (s *Scorer) State() rows.State {
	st := rows.Save(s.fitted)
	for name, n := range s.widths {
		st.Params[widthPrefix+name] = float64(n)
	}
	return st
}

// CheckState returns an error if the fitted method cannot be restored from its state.
func (s *Scorer) CheckState() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
		if err != nil {
			err = fmt.Errorf("method %q: cannot save its fitted state: %w", s.method.Name, err)
		}
	}()
	_, err = Restore(s.method, s.State())
	return err
}

// Restore rebuilds a scorer from its state. It returns an error for a state that no fit can
// produce.
func Restore(m ood.Method, st rows.State) (*Scorer, error) {
	if m.New == nil {
		return nil, fmt.Errorf("method %q has no function New", m.Name)
	}
	own := rows.State{Params: map[string]any{}, Arrays: st.Arrays}
	s := &Scorer{method: m, fitted: m.New(), widths: batchparts.Widths{}}
	if err := checkFitted(m, "New", s.fitted); err != nil {
		return nil, err
	}
	remainingWidth := maxTotalWidth
	for name, v := range st.Params {
		part, isWidth := strings.CutPrefix(name, widthPrefix)
		if !isWidth {
			own.Params[name] = v
			continue
		}
		n, ok := v.(float64)
		if !ok || n != math.Trunc(n) || n < 1 || n > float64(min(remainingWidth, rows.MaxWidth)) {
			return nil, fmt.Errorf("parameter %q must be a whole number of at least 1, at most %d and with all widths at most %d, not %v", name, rows.MaxWidth, maxTotalWidth, v)
		}
		s.widths[part] = int(n)
		remainingWidth -= int(n)
	}
	if names := s.widths.Names(); availableNeeds(s.zeroBatch()) != batchNeeds(m.Needs) || len(names) != len(s.widths) {
		return nil, fmt.Errorf("it was fitted on rows with %s, but the method needs %s", cmp.Or(strings.Join(names, ", "), "no widths"), m.Needs)
	}
	if err := rows.Restore(s.fitted, own, s.widths); err != nil {
		return nil, err
	}
	return s, s.checkWidths()
}

// zeroBatch returns a batch of one row of zeros with the widths of the fit.
func (s *Scorer) zeroBatch() ood.Batch {
	var b ood.Batch
	for _, name := range s.widths.Names() {
		batchparts.Set(&b, name, rows.New(1, s.widths[name]))
	}
	return b
}

// maxTotalWidth limits the sum of all widths in a state, because checkWidths allocates a row of
// this size.
const maxTotalWidth = 3 * rows.MaxWidth

// checkWidths returns an error if the fitted state does not match the widths. It finds out
// by scoring a row of zeros or predicting its quantiles. It does not check methods that run
// the model or need nothing.
func (s *Scorer) checkWidths() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("its arrays do not fit the widths of the rows")
		}
	}()
	if s.method.Needs.Inputs || s.method.Needs.Network || s.method.Needs.Dropout || s.method.Needs == (ood.Needs{}) {
		return nil
	}
	if s.method.Needs.Targets {
		_, err := s.Predict(s.zeroBatch().Features, []float64{.5})
		return err
	}
	return s.fitted.(ood.Detector).Score(context.Background(), make([]float64, 1), s.zeroBatch())
}
