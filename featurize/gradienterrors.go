package featurize

import "fmt"

// ScalarError says that a network does not have the outputs that a scalar is
// of.
type ScalarError struct{ Reason string }

func (e *ScalarError) Error() string { return e.Reason }

func scalarErrorf(format string, args ...any) error {
	return &ScalarError{fmt.Sprintf(format, args...)}
}

// TensorError says that a tensor is none to differentiate with respect to.
type TensorError struct{ Tensor, Reason string }

func (e *TensorError) Error() string {
	return fmt.Sprintf("cannot differentiate with respect to tensor %q: %s", e.Tensor, e.Reason)
}
