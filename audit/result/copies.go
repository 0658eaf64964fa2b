package result

import (
	"fmt"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
)

// Copies counts inputs with equal or nearly equal content.
type Copies struct {
	// Distinct is the number of different inputs. Repeated is the number of copies of
	// earlier inputs. Near is the number of these that are near copies. Mirrored is the number
	// of near copies that are mirrored.
	Distinct int `json:"distinct"`
	Repeated int `json:"repeated"`
	Near     int `json:"near"`
	Mirrored int `json:"mirrored"`
	// MostCopied lists the inputs with the most copies.
	MostCopied []Copied `json:"most_copied"`
	// Between lists the pairs of files with the most copies, in falling order.
	Between []FileCopies `json:"between"`
}

// String returns a sentence without a full stop.
func (c *Copies) String() string {
	kind := fmt.Sprintf("copies of an earlier one (%s)", copyCounts(c.Repeated-c.Near, c.Near-c.Mirrored, c.Mirrored))
	switch {
	case c.Near == 0:
		kind = "exact copies of an earlier one"
	case c.Near == c.Repeated && c.Mirrored == 0:
		kind = "near copies of an earlier one"
	}
	return fmt.Sprintf("%s of %s are %s; %s differ", display.Count(c.Repeated), rows.Count(c.Distinct+c.Repeated, "input"), kind, display.Count(c.Distinct))
}

// Copied is an input with copies.
type Copied struct {
	Inputs int      `json:"inputs"`
	Keys   []string `json:"keys"` // keys of the first MaxCopyKeys inputs
}

// FileCopies counts the inputs of a file that are copies of inputs of another file, or of
// earlier inputs of the same file.
type FileCopies struct {
	Shard    string `json:"shard"` // file of the copies
	Of       string `json:"of"`    // file of the inputs that they copy
	Exact    int    `json:"exact"`
	Near     int    `json:"near"` // without mirrored copies
	Mirrored int    `json:"mirrored"`
}

// String returns a sentence without a full stop.
func (c FileCopies) String() string {
	counts := copyCounts(c.Exact, c.Near, c.Mirrored)
	if c.Shard == c.Of {
		return fmt.Sprintf("%s has copies of its own inputs: %s", c.Shard, counts)
	}
	return fmt.Sprintf("%s copies %s: %s", c.Shard, c.Of, counts)
}

// copyCounts returns the numbers of copies of each kind, without zeros.
func copyCounts(exact, near, mirrored int) string {
	var list []string
	for i, n := range []int{exact, near, mirrored} {
		if n > 0 {
			list = append(list, display.Count(n)+" "+[]string{"exact", "near", "mirrored"}[i])
		}
	}
	return strings.Join(list, ", ")
}
