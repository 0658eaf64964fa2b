package modelrows

import "fmt"

// UsageError is an error in the options, not in the data. Errors of this package name an option
// as Options.Groups, and the command replaces that by the flag.
type UsageError struct{ error }

// Usagef returns a UsageError with a text formatted as by fmt.Errorf.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }
