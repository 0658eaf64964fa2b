package rows

import (
	"strings"

	"github.com/attach-uncertainty/attach/internal/display"
)

// Count formats n with a noun in the singular or plural, for example "1 row", "2,000 rows"
// or "2 classes".
func Count(n int, singular string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(singular, "ry"):
		singular = strings.TrimSuffix(singular, "y") + "ies"
	case strings.HasSuffix(singular, "s"):
		singular += "es"
	default:
		singular += "s"
	}
	return display.Count(n) + " " + singular
}

// CountOf formats a part of a total with its noun, for example "20 of 2,000 calibration
// rows".
func CountOf(n, total int, singular string) string {
	return display.Count(n) + " of " + Count(total, singular)
}
