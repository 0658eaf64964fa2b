package result

import (
	"fmt"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
)

// Copies counts inputs with equal or nearly equal content.
type Copies struct {
	// Distinct is the number of different inputs. Repeated is the number of copies of
	// earlier inputs. Near is the number of these that are near copies.
	Distinct int `json:"distinct"`
	Repeated int `json:"repeated"`
	Near     int `json:"near"`
	// MostCopied lists the inputs with the most copies.
	MostCopied []Copied `json:"most_copied"`
}

// String returns a sentence without a full stop.
func (c *Copies) String() string {
	kind := fmt.Sprintf("copies of an earlier one (%s exact, %s near)", display.Count(c.Repeated-c.Near), display.Count(c.Near))
	switch c.Near {
	case 0:
		kind = "exact copies of an earlier one"
	case c.Repeated:
		kind = "near copies of an earlier one"
	}
	return fmt.Sprintf("%s of %s are %s; %s differ", display.Count(c.Repeated), rows.Count(c.Distinct+c.Repeated, "input"), kind, display.Count(c.Distinct))
}

// Copied is an input with copies.
type Copied struct {
	Inputs int      `json:"inputs"`
	Keys   []string `json:"keys"` // keys of the first MaxCopyKeys inputs
}
