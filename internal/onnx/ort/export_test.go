package ort

import "github.com/attach-uncertainty/attach/internal/onnx/pb"

// ResetWarning makes the next fallback to the CPU print its warning again.
func ResetWarning() {
	environment.Lock()
	defer environment.Unlock()
	environment.warned = false
}

// Inputs returns descriptions of the inputs of Run, in order.
func (s *Session) Inputs() []ValueInfo { return s.inputs }

// DType returns the element type of the tensor.
func (t *Tensor) DType() pb.TensorProto_DataType { return t.dtype }

// Strings returns the elements of a string tensor, or nil for other element types.
func (t *Tensor) Strings() []string {
	v, _ := t.data.([]string)
	return v
}
