package attach

import (
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
)

// Scorer is what was fitted, for tests that compare with it.
func (f *Fitted) Scorer() *fitting.Scorer { return f.scorer }

// Widths are those of rows that a fuzzed bundle asks for.
func (b Base) Widths() batchparts.Widths { return b.widths() }
