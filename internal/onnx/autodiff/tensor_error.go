package autodiff

import "fmt"

// TensorError reports that a model lacks the outputs that a scalar needs or, if Tensor is not
// empty, that the gradient with respect to Tensor is not defined.
type TensorError struct{ Tensor, Reason string }

func (e *TensorError) Error() string {
	if e.Tensor == "" {
		return e.Reason
	}
	return fmt.Sprintf("cannot differentiate with respect to tensor %q: %s", e.Tensor, e.Reason)
}
