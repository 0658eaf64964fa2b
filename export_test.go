package attach

import (
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
)

// Scorer returns the fitted detector or interval model, so that tests can compare with it.
func (f *Fitted) Scorer() *fitting.Scorer { return f.scorer }

// Widths exports widths for the fuzz tests.
func (b Base) Widths() batchparts.Widths { return b.widths() }
