package modelrows

import "fmt"

// UsageError is an error in the options, not in the data. Its text names an option by its
// field, for example Options.Groups. The command replaces this name by the flag.
type UsageError struct{ error }

// Usagef returns a UsageError with a text formatted as by fmt.Errorf.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }
