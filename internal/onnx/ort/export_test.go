package ort

import "github.com/attach-uncertainty/attach/internal/onnx/pb"

// ForgetWarning lets the next fallback to the CPU print its warning again.
func ForgetWarning() {
	environment.Lock()
	defer environment.Unlock()
	environment.warned = false
}

// Inputs describes the inputs of Run, in order.
func (s *Session) Inputs() []ValueInfo { return s.inputs }

// DType returns the element type.
func (t *Tensor) DType() pb.TensorProto_DataType { return t.dtype }

// Strings returns the texts, or nil for other element types.
func (t *Tensor) Strings() []string {
	v, _ := t.data.([]string)
	return v
}
