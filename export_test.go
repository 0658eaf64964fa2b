package attach

import (
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
)

// Scorer returns the fitted detector, for tests that compare with it.
func (f *Fitted) Scorer() *fitting.Scorer { return f.scorer }

// Widths returns the widths of rows that a fuzzed bundle needs.
func (b Base) Widths() batchparts.Widths { return b.widths() }
