package ort_test

import (
	"math"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

func testIdentity[T ort.Number](t *testing.T, r *ort.Runtime, d pb.TensorProto_DataType, data ...T) {
	t.Run(d.String(), func(t *testing.T) {
		s := open(t, r, unary("Identity", d, -1, 2))
		shape := []int64{int64(len(data) / 2), 2}
		y := run(t, s, tensor(t, shape, data))
		if y.DType() != d || !slices.Equal(y.Shape(), shape) {
			t.Errorf("got %s %v", y.DType(), y.Shape())
		}
		if !slices.Equal(ort.View[T](y), data) {
			t.Errorf("got %v, want %v", ort.View[T](y), data)
		}
		into := make([]T, len(data))
		if err := s.RunInto([]*ort.Tensor{tensor(t, shape, data)}, []*ort.Tensor{tensor(t, shape, into)}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(into, data) {
			t.Errorf("RunInto: got %v, want %v", into, data)
		}
	})
}

func TestDTypes(t *testing.T) {
	r := orttest.Open(t)
	testIdentity[float32](t, r, pb.TensorProto_FLOAT, 1, -2, 3.5, 4)
	testIdentity[float64](t, r, pb.TensorProto_DOUBLE, 1, -2, math.Pi, 4)
	testIdentity[int64](t, r, pb.TensorProto_INT64, 1, -2, 1<<40, 4)
	testIdentity[int32](t, r, pb.TensorProto_INT32, 1, -2, 3, 4)
	testIdentity[int8](t, r, pb.TensorProto_INT8, 1, -2, 127, -128)
	testIdentity[uint8](t, r, pb.TensorProto_UINT8, 1, 2, 255, 0)
	testIdentity[bool](t, r, pb.TensorProto_BOOL, true, false, false, true)
	testIdentity[int16](t, r, pb.TensorProto_INT16, 1, -2)
	testIdentity[uint16](t, r, pb.TensorProto_UINT16, 1, 65535)
	testIdentity[uint32](t, r, pb.TensorProto_UINT32, 1, 2)
	testIdentity[uint64](t, r, pb.TensorProto_UINT64, 1, 1<<63)
}

func TestStrings(t *testing.T) {
	s := open(t, orttest.Open(t), unary("Identity", pb.TensorProto_STRING, -1, 2))
	texts := []string{"a", "", "größer 数", "a\"b\n"}
	x, err := ort.NewStrings([]int64{2, 2}, texts)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	y := run(t, s, x)
	if y.DType() != pb.TensorProto_STRING || !slices.Equal(y.Strings(), texts) || !slices.Equal(y.Shape(), []int64{2, 2}) {
		t.Errorf("got %s %v %q", y.DType(), y.Shape(), y.Strings())
	}
	for _, bad := range [][]string{{"a"}, {"a", "b\x00c"}} {
		if _, err := ort.NewStrings([]int64{1, 2}, bad); err == nil {
			t.Errorf("%q as 1×2", bad)
		}
	}
}

// TestScalar checks that scalars are an error, because the binding does not support them.
func TestScalar(t *testing.T) {
	if _, err := ort.NewTensor(nil, []float32{1}); err == nil {
		t.Error("a tensor without axes is taken")
	}
	if _, err := ort.NewStrings(nil, []string{"a"}); err == nil {
		t.Error("a text without axes is taken")
	}
}

func TestEmpty(t *testing.T) {
	s := open(t, orttest.Open(t), unary("Neg", pb.TensorProto_FLOAT, -1, 2))
	if y := run(t, s, tensor(t, []int64{0, 2}, []float32{})); !slices.Equal(y.Shape(), []int64{0, 2}) || len(y.Float32s()) != 0 {
		t.Errorf("got %v %v", y.Shape(), y.Float32s())
	}
}
