package ood

import (
	"fmt"
	"strings"
)

// MostMemory bounds what a fit may hold beside its rows, in bytes. The garbage
// collector lets about as much again gather, so that a process stays below 8 GB
// and its rows.
const MostMemory = 4 << 30

// MemoryError says that a fit would hold more than MostMemory.
type MemoryError struct {
	Method string   // its name
	Rows   string   // what it would be fitted with, as in "60 rows of 100000 features"
	Others []string // methods that can be fitted with these rows, where they were looked for
}

func (e *MemoryError) Error() string {
	others := ""
	if len(e.Others) > 0 {
		others = "; those that do not are " + strings.Join(e.Others, ", ")
	}
	return fmt.Sprintf("method %q takes more than %d GB of memory for %s%s", e.Method, 2*MostMemory>>30, e.Rows, others)
}

// CheckMemory returns a *MemoryError where one configuration, fitted with t,
// would hold more than MostMemory, or nil.
func (m Method) CheckMemory(t Training, p Params) error {
	if m.MemoryFor(t, p) <= MostMemory {
		return nil
	}
	rows := fmt.Sprintf("%d rows of %d features", t.Len(), t.Features.Cols)
	if t.HasLogits() {
		rows += fmt.Sprintf(", %d logits", t.Logits.Cols)
	}
	if m.Needs&NeedLayers != 0 {
		for _, l := range t.Layers {
			rows += fmt.Sprintf(", %d in a layer", l.Cols)
		}
	}
	if m.MemoryFor(t, nil) <= MostMemory {
		rows += ", with " + p.String()
	}
	return &MemoryError{Method: m.Name, Rows: rows}
}

// MemoryFor is Memory of parameters and the defaults of others; 0 for some that
// Fit refuses.
func (m Method) MemoryFor(t Training, p Params) float64 {
	if m.Memory == nil {
		return 0
	}
	v, err := m.resolve(p)
	if err != nil {
		return 0
	}
	return m.Memory(t, v)
}
