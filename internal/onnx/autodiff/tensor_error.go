package autodiff

import "fmt"

// TensorError reports that the gradient with respect to Tensor is not defined. If Tensor is
// empty, it reports that the differentiated scalar is not defined, for example because the
// model lacks an output.
type TensorError struct{ Tensor, Reason string }

func (e *TensorError) Error() string {
	if e.Tensor == "" {
		return e.Reason
	}
	return fmt.Sprintf("cannot differentiate with respect to tensor %q: %s", e.Tensor, e.Reason)
}
