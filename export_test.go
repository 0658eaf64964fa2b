package attach

import (
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
)

// Scorer returns the fitted detector or interval model, so that tests can compare with it.
func (f *Fitted) Scorer() *fitting.Scorer { return f.scorer }

// Widths exports Base.widths, so that the fuzz tests know which matrices to predict.
func (b Base) Widths() batchparts.Widths { return b.widths() }
