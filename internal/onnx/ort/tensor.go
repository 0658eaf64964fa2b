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

// Number is what a [Tensor] can hold beside texts.
type Number interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | bool
}

// elements are the types of Go that hold those of ONNX. Half precision and what is newer can be the type of a model's input or
// output, but no [Tensor] holds them.
var elements = map[pb.TensorProto_DataType]element{
	pb.TensorProto_FLOAT: of[float32]{}, pb.TensorProto_DOUBLE: of[float64]{}, pb.TensorProto_BOOL: of[bool]{},
	pb.TensorProto_INT8: of[int8]{}, pb.TensorProto_INT16: of[int16]{}, pb.TensorProto_INT32: of[int32]{}, pb.TensorProto_INT64: of[int64]{},
	pb.TensorProto_UINT8: of[uint8]{}, pb.TensorProto_UINT16: of[uint16]{}, pb.TensorProto_UINT32: of[uint32]{}, pb.TensorProto_UINT64: of[uint64]{},
}

type element interface {
	adopt(v onnxruntime_go.Value) (*Tensor, bool) // a tensor of the type
}

type of[T Number] struct{}

func (of[T]) adopt(v onnxruntime_go.Value) (*Tensor, bool) {
	w, ok := v.(*onnxruntime_go.Tensor[T])
	if !ok {
		return nil, false
	}
	t := &Tensor{shape: w.GetShape(), dtype: dtypeOf[T](), data: w.GetData()}
	t, err := wrap(t, w.GetData(), func() (onnxruntime_go.Value, error) { return w, nil })
	return t, err == nil
}

func dtypeOf[T Number]() pb.TensorProto_DataType {
	for d, e := range elements {
		if _, ok := e.(of[T]); ok {
			return d
		}
	}
	return pb.TensorProto_UNDEFINED
}

// Tensor is a dense row-major array that sessions read and write. Its elements are seen through views such as Float32s, which
// share its memory. Close it when done.
type Tensor struct {
	shape []int64
	dtype pb.TensorProto_DataType
	data  any // []T, or []string
	value onnxruntime_go.Value
	pin   runtime.Pinner
}

// NewTensor wraps data, whose length must be the product of shape, which has an axis or more: the binding knows no scalars.
// Nothing is copied: data stays in place until Close, and may be changed between runs.
func NewTensor[T Number](shape []int64, data []T) (*Tensor, error) {
	t := &Tensor{shape: slices.Clone(shape), dtype: dtypeOf[T](), data: data}
	if err := t.check(len(data)); err != nil {
		return nil, err
	}
	return wrap(t, data, func() (onnxruntime_go.Value, error) {
		return onnxruntime_go.NewTensor(onnxruntime_go.Shape(shape), data)
	})
}

// NewStrings copies texts into a tensor. The runtime takes none with a zero byte.
func NewStrings(shape []int64, texts []string) (*Tensor, error) {
	t := &Tensor{shape: slices.Clone(shape), dtype: pb.TensorProto_STRING, data: texts}
	if err := t.check(len(texts)); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(texts, func(s string) bool { return strings.IndexByte(s, 0) >= 0 }); i >= 0 {
		return nil, fmt.Errorf("text %d (counted from 0) has a zero byte, which no model can be given", i)
	}
	v, err := onnxruntime_go.NewStringTensor(onnxruntime_go.Shape(shape))
	if err == nil {
		if err = v.SetContents(texts); err != nil {
			v.Destroy()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("string tensor of shape %v: %w", shape, sentence(err))
	}
	t.value = v
	runtime.SetFinalizer(t, (*Tensor).Close)
	return t, nil
}

// wrap pins data, whose address the runtime keeps, and makes the binding's value.
func wrap[T any](t *Tensor, data []T, value func() (onnxruntime_go.Value, error)) (*Tensor, error) {
	if len(data) > 0 {
		t.pin.Pin(&data[0])
	}
	v, err := value()
	if err != nil {
		t.pin.Unpin()
		return nil, fmt.Errorf("%s tensor of shape %v: %w", t.holds(), t.shape, sentence(err))
	}
	t.value = v
	// A tensor that nobody closed must not be collected with its memory still pinned.
	runtime.SetFinalizer(t, (*Tensor).Close)
	return t, nil
}

// holds is the name of the element type.
func (t *Tensor) holds() string { return onnx.DTypeName(int32(t.dtype)) }

func (t *Tensor) check(n int) error {
	if len(t.shape) == 0 {
		return fmt.Errorf("%s tensor without axes: the runtime's binding takes no scalars", t.holds())
	}
	want := int64(1)
	for _, d := range t.shape {
		if d < 0 || (d > 0 && want > math.MaxInt64/d) {
			return fmt.Errorf("%s tensor of shape %v: negative or too large", t.holds(), t.shape)
		}
		want *= d
	}
	if want != int64(n) {
		return fmt.Errorf("%s tensor of shape %v takes %d elements, got %d", t.holds(), t.shape, want, n)
	}
	return nil
}

// Shape returns the dimensions; the caller must not change them.
func (t *Tensor) Shape() []int64 { return t.shape }

// View returns the elements, nil if they are not of the type.
func View[T Number](t *Tensor) []T {
	v, _ := t.data.([]T)
	return v
}

// Float32s returns a view of the elements, nil if they are not float32.
func (t *Tensor) Float32s() []float32 { return View[float32](t) }

// Close frees the tensor; a slice that it wrapped stays its owner's, and so do views of an output. Closing twice or closing nil is harmless.
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

// fromValue takes over a value that the runtime made. The binding copied its elements
// to memory that is collected, so that views of them may outlive Close.
func fromValue(v onnxruntime_go.Value) (*Tensor, error) {
	if s, ok := v.(*onnxruntime_go.StringTensor); ok {
		texts, err := s.GetContents()
		if err != nil {
			v.Destroy()
			return nil, sentence(err)
		}
		t := &Tensor{shape: s.GetShape(), dtype: pb.TensorProto_STRING, data: texts, value: s}
		runtime.SetFinalizer(t, (*Tensor).Close)
		return t, nil
	}
	for _, e := range elements {
		if t, ok := e.adopt(v); ok {
			return t, nil
		}
	}
	v.Destroy()
	return nil, ErrDType
}
