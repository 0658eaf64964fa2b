package attach

import (
	"github.com/attach-uncertainty/attach/internal/driver"
	"github.com/attach-uncertainty/attach/internal/parts"
)

// Scorer is what was fitted, for tests that compare with it.
func (f *Fitted) Scorer() *driver.Scorer { return f.scorer }

// Widths are those of rows that a fuzzed bundle asks for.
func (b Base) Widths() parts.Widths { return b.widths() }
