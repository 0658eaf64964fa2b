package autodiff

import "fmt"

// TensorError says that a network does not have the outputs that a scalar is of
// or, where Tensor is not empty, that this is none to differentiate with respect
// to.
type TensorError struct{ Tensor, Reason string }

func (e *TensorError) Error() string {
	if e.Tensor == "" {
		return e.Reason
	}
	return fmt.Sprintf("cannot differentiate with respect to tensor %q: %s", e.Tensor, e.Reason)
}
