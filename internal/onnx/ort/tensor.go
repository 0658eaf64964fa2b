package ort

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/yalue/onnxruntime_go"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// Number is the constraint of the numeric and boolean element types of a [Tensor].
type Number interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | bool
}

// elements maps ONNX element types to Go types. It lacks half precision and newer types,
// because a [Tensor] cannot hold them.
var elements = map[pb.TensorProto_DataType]element{
	pb.TensorProto_FLOAT: elementOf[float32]{}, pb.TensorProto_DOUBLE: elementOf[float64]{}, pb.TensorProto_BOOL: elementOf[bool]{},
	pb.TensorProto_INT8: elementOf[int8]{}, pb.TensorProto_INT16: elementOf[int16]{}, pb.TensorProto_INT32: elementOf[int32]{}, pb.TensorProto_INT64: elementOf[int64]{},
	pb.TensorProto_UINT8: elementOf[uint8]{}, pb.TensorProto_UINT16: elementOf[uint16]{}, pb.TensorProto_UINT32: elementOf[uint32]{}, pb.TensorProto_UINT64: elementOf[uint64]{},
}

// element converts values of one element type.
type element interface {
	toTensor(v onnxruntime_go.Value) (*Tensor, bool) // converts a value of the binding to a Tensor, or returns false if its type differs
}

// elementOf implements element for the Go type T.
type elementOf[T Number] struct{}

func (elementOf[T]) toTensor(v onnxruntime_go.Value) (*Tensor, bool) {
	w, ok := v.(*onnxruntime_go.Tensor[T])
	if !ok {
		return nil, false
	}
	t := &Tensor{shape: w.GetShape(), dtype: dtypeOf[T](), data: w.GetData()}
	t, err := newPinned(t, w.GetData(), func() (onnxruntime_go.Value, error) { return w, nil })
	return t, err == nil
}

// dtypeOf returns the ONNX element type for T.
func dtypeOf[T Number]() pb.TensorProto_DataType {
	for d, e := range elements {
		if _, ok := e.(elementOf[T]); ok {
			return d
		}
	}
	return pb.TensorProto_UNDEFINED
}

// Tensor is a dense row-major array that sessions read and write. Views such as Float32s
// share its memory. Callers must close it.
type Tensor struct {
	shape []int64
	dtype pb.TensorProto_DataType
	data  any // []T for a Number T, or []string
	value onnxruntime_go.Value
	pin   runtime.Pinner
}

// NewTensor wraps data without a copy. The length of data must be the product of shape.
// shape needs at least one axis, because the binding does not support scalars. NewTensor
// pins data in memory until Close. Callers may change its elements between runs.
func NewTensor[T Number](shape []int64, data []T) (*Tensor, error) {
	t := &Tensor{shape: slices.Clone(shape), dtype: dtypeOf[T](), data: data}
	if err := t.checkShape(len(data)); err != nil {
		return nil, err
	}
	return newPinned(t, data, func() (onnxruntime_go.Value, error) {
		return onnxruntime_go.NewTensor(onnxruntime_go.Shape(shape), data)
	})
}

// NewStrings copies texts to a tensor. Texts must not contain zero bytes, because the
// runtime's strings end at a zero byte.
func NewStrings(shape []int64, texts []string) (*Tensor, error) {
	t := &Tensor{shape: slices.Clone(shape), dtype: pb.TensorProto_STRING, data: texts}
	if err := t.checkShape(len(texts)); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(texts, func(s string) bool { return strings.IndexByte(s, 0) >= 0 }); i >= 0 {
		return nil, fmt.Errorf("text %d (counted from 0) contains a zero byte, which models cannot read", i)
	}
	v, err := onnxruntime_go.NewStringTensor(onnxruntime_go.Shape(shape))
	if err == nil {
		if err = v.SetContents(texts); err != nil {
			v.Destroy()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("string tensor of shape %v: %w", shape, cleanError(err))
	}
	t.value = v
	runtime.SetFinalizer(t, (*Tensor).Close)
	return t, nil
}

// newPinned pins data in memory and then sets t.value to the result of value, the binding's
// tensor for data. It pins first, because the runtime keeps the address of data.
func newPinned[T any](t *Tensor, data []T, value func() (onnxruntime_go.Value, error)) (*Tensor, error) {
	if len(data) > 0 {
		t.pin.Pin(&data[0])
	}
	v, err := value()
	if err != nil {
		t.pin.Unpin()
		return nil, fmt.Errorf("%s tensor of shape %v: %w", t.typeName(), t.shape, cleanError(err))
	}
	t.value = v
	// If the caller forgets to close the tensor, the finalizer unpins its memory.
	runtime.SetFinalizer(t, (*Tensor).Close)
	return t, nil
}

// typeName returns NumPy's name of the element type.
func (t *Tensor) typeName() string { return onnx.DTypeName(int32(t.dtype)) }

// checkShape returns an error if the shape of t does not have n elements.
func (t *Tensor) checkShape(n int) error {
	if len(t.shape) == 0 {
		return fmt.Errorf("%s tensor without axes: scalars are not supported", t.typeName())
	}
	want := int64(1)
	for _, d := range t.shape {
		if d < 0 || (d > 0 && want > math.MaxInt64/d) {
			return fmt.Errorf("%s tensor of shape %v: negative or too large", t.typeName(), t.shape)
		}
		want *= d
	}
	if want != int64(n) {
		return fmt.Errorf("%s tensor of shape %v takes %d elements, got %d", t.typeName(), t.shape, want, n)
	}
	return nil
}

// Shape returns the dimensions of the tensor. The caller must not change them.
func (t *Tensor) Shape() []int64 { return t.shape }

// View returns the elements of t without a copy, or nil if their type is not T.
func View[T Number](t *Tensor) []T {
	v, _ := t.data.([]T)
	return v
}

// Float32s returns the elements without a copy, or nil if they are not float32.
func (t *Tensor) Float32s() []float32 { return View[float32](t) }

// Close releases the tensor. Wrapped slices and views of outputs stay valid. Further calls,
// and calls on nil, do nothing.
func (t *Tensor) Close() {
	if t == nil || t.data == nil {
		return
	}
	runtime.SetFinalizer(t, nil)
	if t.value != nil {
		t.value.Destroy()
	}
	t.value, t.data = nil, nil
	t.pin.Unpin()
}

var errClosed = errors.New("use of a closed tensor or session")

// fromValue converts a value that the runtime created to a Tensor. The binding copied its
// elements to garbage-collected memory, so views stay valid after Close.
func fromValue(v onnxruntime_go.Value) (*Tensor, error) {
	if s, ok := v.(*onnxruntime_go.StringTensor); ok {
		texts, err := s.GetContents()
		if err != nil {
			v.Destroy()
			return nil, cleanError(err)
		}
		t := &Tensor{shape: s.GetShape(), dtype: pb.TensorProto_STRING, data: texts, value: s}
		runtime.SetFinalizer(t, (*Tensor).Close)
		return t, nil
	}
	for _, e := range elements {
		if t, ok := e.toTensor(v); ok {
			return t, nil
		}
	}
	v.Destroy()
	return nil, ErrDType
}
