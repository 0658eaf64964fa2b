package modelrows

import "fmt"

// UsageError is of what was asked for, and not of what was found. Errors of this package
// name options as Options.Groups.
type UsageError struct{ error }

// Usagef is fmt.Errorf of a UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }
