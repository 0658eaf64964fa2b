package rows

import (
	"fmt"
	"strings"
)

// Count is so many of something, in words: 1 row, 2 rows, 2 classes, 2 discoveries.
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
	return fmt.Sprintf("%d %s", n, one)
}
