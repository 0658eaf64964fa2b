package rows

import (
	"strings"

	"github.com/attach-uncertainty/attach/internal/display"
)

// Count formats a number of things: 1 row, 2,000 rows, 2 classes, 2 discoveries.
func Count(n int, one string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(one, "ry"):
		one = strings.TrimSuffix(one, "y") + "ies"
	case strings.HasSuffix(one, "s"):
		one += "es"
	default:
		one += "s"
	}
	return display.Count(n) + " " + one
}

// CountOf formats a part of a number of things: 20 of 2,000 calibration rows.
func CountOf(n, all int, one string) string { return display.Count(n) + " of " + Count(all, one) }
