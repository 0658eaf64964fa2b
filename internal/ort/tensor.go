package ort

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"unsafe"

	"github.com/yalue/onnxruntime_go"

	"github.com/attach-uncertainty/attach/internal/float16"
)

// Number is what a [Tensor] can hold beside float16.
type Number interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | bool
}

// Tensor is a dense row-major array that sessions read and write. Its elements are seen through views such as Float32s, which
// share its memory. Close it when done.
type Tensor struct {
	shape []int64
	dtype DType
	data  any // []T, or []uint16 for float16
	value onnxruntime_go.Value
	fresh func() (onnxruntime_go.Value, error) // makes the value of a scalar, which the binding cannot wrap
	load  func(onnxruntime_go.Value)           // reads it back
	pin   runtime.Pinner
}

// NewTensor wraps data, whose length must be the product of shape (1 for an empty shape, a scalar). Nothing is copied: data stays
// in place until Close, and may be changed between runs.
func NewTensor[T Number](shape []int64, data []T) (*Tensor, error) {
	t := &Tensor{shape: slices.Clone(shape), dtype: dtypeOf[T](), data: data}
	if err := t.check(len(data)); err != nil {
		return nil, err
	}
	if len(shape) == 0 {
		t.fresh = func() (onnxruntime_go.Value, error) { return onnxruntime_go.NewScalar(data[0]) }
		t.load = func(v onnxruntime_go.Value) { data[0] = v.(*onnxruntime_go.Scalar[T]).GetData() }
		return t, nil
	}
	return wrap(t, data, func() (onnxruntime_go.Value, error) {
		return onnxruntime_go.NewTensor(onnxruntime_go.Shape(shape), data)
	})
}

// NewFloat16 wraps IEEE 754 half-precision numbers given by their bits. Scalars and empty tensors are refused; otherwise it is
// like [NewTensor].
func NewFloat16(shape []int64, bits []uint16) (*Tensor, error) {
	t := &Tensor{shape: slices.Clone(shape), dtype: Float16, data: bits}
	if err := t.check(len(bits)); err != nil {
		return nil, err
	}
	if len(shape) == 0 || len(bits) == 0 {
		return nil, fmt.Errorf("float16 tensor of shape %v: scalars and empty tensors are not supported", shape)
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&bits[0])), 2*len(bits))
	return wrap(t, bits, func() (onnxruntime_go.Value, error) {
		return onnxruntime_go.NewCustomDataTensor(onnxruntime_go.Shape(shape), raw, onnxruntime_go.TensorElementDataTypeFloat16)
	})
}

// wrap pins data, whose address the runtime keeps, and makes the binding's value.
func wrap[T any](t *Tensor, data []T, value func() (onnxruntime_go.Value, error)) (*Tensor, error) {
	if len(data) > 0 {
		t.pin.Pin(&data[0])
	}
	v, err := value()
	if err != nil {
		t.pin.Unpin()
		return nil, fmt.Errorf("%s tensor of shape %v: %w", t.dtype, t.shape, sentence(err))
	}
	t.value = v
	// A tensor that nobody closed must not be collected with its memory still pinned.
	runtime.SetFinalizer(t, (*Tensor).Close)
	return t, nil
}

func (t *Tensor) check(n int) error {
	want := int64(1)
	for _, d := range t.shape {
		if d < 0 || (d > 0 && want > math.MaxInt64/d) {
			return fmt.Errorf("%s tensor of shape %v: negative or too large", t.dtype, t.shape)
		}
		want *= d
	}
	if want != int64(n) {
		return fmt.Errorf("%s tensor of shape %v takes %d elements, got %d", t.dtype, t.shape, want, n)
	}
	return nil
}

// Shape returns the dimensions; the caller must not change them.
func (t *Tensor) Shape() []int64 { return t.shape }

// DType returns the element type.
func (t *Tensor) DType() DType { return t.dtype }

// Float32s returns a view of the elements, nil if they are not float32.
func (t *Tensor) Float32s() []float32 { return view[float32](t) }

// Float64s returns a view of the elements, nil if they are not float64.
func (t *Tensor) Float64s() []float64 { return view[float64](t) }

// Int64s returns a view of the elements, nil if they are not int64.
func (t *Tensor) Int64s() []int64 { return view[int64](t) }

// Int32s returns a view of the elements, nil if they are not int32.
func (t *Tensor) Int32s() []int32 { return view[int32](t) }

// Uint8s returns a view of the elements, nil if they are not uint8.
func (t *Tensor) Uint8s() []uint8 { return view[uint8](t) }

// Int8s returns a view of the elements, nil if they are not int8.
func (t *Tensor) Int8s() []int8 { return view[int8](t) }

// Bools returns a view of the elements, nil if they are not bool.
func (t *Tensor) Bools() []bool { return view[bool](t) }

// Float16s returns a view of the elements' bits, nil if they are not float16.
func (t *Tensor) Float16s() []uint16 {
	if t.dtype != Float16 {
		return nil
	}
	return view[uint16](t)
}

func view[T any](t *Tensor) []T {
	v, _ := t.data.([]T)
	return v
}

// AppendFloat32s appends the elements to dst, converted to float32 (false is 0, true is 1).
func (t *Tensor) AppendFloat32s(dst []float32) []float32 {
	switch v := t.data.(type) {
	case []float32:
		return append(dst, v...)
	case []uint16:
		if t.dtype == Float16 {
			return append(dst, convert(v, float16.Decode)...)
		}
		return appendNumbers(dst, v)
	case []float64:
		return appendNumbers(dst, v)
	case []int8:
		return appendNumbers(dst, v)
	case []int16:
		return appendNumbers(dst, v)
	case []int32:
		return appendNumbers(dst, v)
	case []int64:
		return appendNumbers(dst, v)
	case []uint8:
		return appendNumbers(dst, v)
	case []uint32:
		return appendNumbers(dst, v)
	case []uint64:
		return appendNumbers(dst, v)
	case []bool:
		for _, b := range v {
			f := float32(0)
			if b {
				f = 1
			}
			dst = append(dst, f)
		}
	}
	return dst
}

func appendNumbers[T float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](dst []float32, x []T) []float32 {
	dst = slices.Grow(dst, len(x))
	for _, v := range x {
		dst = append(dst, float32(v))
	}
	return dst
}

func convert[S, T any](x []S, f func(S) T) []T {
	out := make([]T, len(x))
	for i, v := range x {
		out[i] = f(v)
	}
	return out
}

// Close frees the tensor; a slice that it wrapped stays its owner's. Closing twice or closing nil is harmless.
func (t *Tensor) Close() {
	if t == nil || t.data == nil {
		return
	}
	runtime.SetFinalizer(t, nil)
	if t.value != nil {
		t.value.Destroy()
	}
	t.value, t.data, t.fresh, t.load = nil, nil, nil, nil
	t.pin.Unpin()
}

var errClosed = errors.New("use of a closed tensor or session")

// fromValue takes over a value that the runtime made.
func fromValue(v onnxruntime_go.Value) (*Tensor, error) {
	switch w := v.(type) {
	case *onnxruntime_go.Tensor[float32]:
		return adopt(w)
	case *onnxruntime_go.Tensor[float64]:
		return adopt(w)
	case *onnxruntime_go.Tensor[int8]:
		return adopt(w)
	case *onnxruntime_go.Tensor[int16]:
		return adopt(w)
	case *onnxruntime_go.Tensor[int32]:
		return adopt(w)
	case *onnxruntime_go.Tensor[int64]:
		return adopt(w)
	case *onnxruntime_go.Tensor[uint8]:
		return adopt(w)
	case *onnxruntime_go.Tensor[uint16]:
		return adopt(w)
	case *onnxruntime_go.Tensor[uint32]:
		return adopt(w)
	case *onnxruntime_go.Tensor[uint64]:
		return adopt(w)
	case *onnxruntime_go.Tensor[bool]:
		return adopt(w)
	}
	v.Destroy()
	return nil, ErrDType
}

func adopt[T Number](w *onnxruntime_go.Tensor[T]) (*Tensor, error) {
	t := &Tensor{shape: w.GetShape(), dtype: dtypeOf[T](), data: w.GetData()}
	return wrap(t, w.GetData(), func() (onnxruntime_go.Value, error) { return w, nil })
}
