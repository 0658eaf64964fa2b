package attach

import "github.com/attach-uncertainty/attach/internal/driver"

// Scorer is what was fitted, for tests that compare with it.
func (f *Fitted) Scorer() *driver.Scorer { return f.scorer }
