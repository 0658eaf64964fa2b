package inputs

import (
	"fmt"
	"strings"
)

// InFile says in which file an error, if there is one, was found, where it does not
// say so itself.
func InFile(path string, err error) error {
	if err == nil || strings.Contains(err.Error(), path) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}
