package ort_test

import (
	"math"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/internal/float16"
	"github.com/attach-uncertainty/attach/internal/ort"
	"github.com/attach-uncertainty/attach/internal/ort/orttest"
)

func testIdentity[T ort.Number](t *testing.T, r *ort.Runtime, d ort.DType, data ...T) {
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
		if f := y.AppendFloat32s(nil); len(f) != len(data) {
			t.Errorf("as float32: %v", f)
		}
	})
}

func TestDTypes(t *testing.T) {
	r := orttest.Open(t)
	testIdentity[float32](t, r, ort.Float32, 1, -2, 3.5, 4)
	testIdentity[float64](t, r, ort.Float64, 1, -2, math.Pi, 4)
	testIdentity[int64](t, r, ort.Int64, 1, -2, 1<<40, 4)
	testIdentity[int32](t, r, ort.Int32, 1, -2, 3, 4)
	testIdentity[int8](t, r, ort.Int8, 1, -2, 127, -128)
	testIdentity[uint8](t, r, ort.Uint8, 1, 2, 255, 0)
	testIdentity[bool](t, r, ort.Bool, true, false, false, true)
	testIdentity[int16](t, r, ort.Int16, 1, -2)
	testIdentity[uint16](t, r, ort.Uint16, 1, 65535)
	testIdentity[uint32](t, r, ort.Uint32, 1, 2)
	testIdentity[uint64](t, r, ort.Uint64, 1, 1<<63)
}

func TestStrings(t *testing.T) {
	s := open(t, orttest.Open(t), unary("Identity", ort.String, -1, 2))
	texts := []string{"a", "", "größer 数", "a\"b\n"}
	x, err := ort.NewStrings([]int64{2, 2}, texts)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	y := run(t, s, x)
	if y.DType() != ort.String || !slices.Equal(y.Strings(), texts) || !slices.Equal(y.Shape(), []int64{2, 2}) {
		t.Errorf("got %s %v %q", y.DType(), y.Shape(), y.Strings())
	}
	for _, bad := range [][]string{{"a"}, {"a", "b\x00c"}} {
		if _, err := ort.NewStrings([]int64{1, 2}, bad); err == nil {
			t.Errorf("%q as 1×2", bad)
		}
	}
}

func TestFloat16(t *testing.T) {
	s := open(t, orttest.Open(t), unary("Neg", ort.Float16, -1, 3))
	in := []float32{1, -0.333251953125, 65504, 5.9604645e-8, 0, float32(math.Inf(1))}
	half := make([]uint16, len(in))
	for i, v := range in {
		half[i] = float16.Encode(v)
	}
	x, err := ort.NewFloat16([]int64{2, 3}, half)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	y := run(t, s, x)
	if y.DType() != ort.Float16 || len(y.Float16s()) != 6 || y.Float32s() != nil {
		t.Fatalf("got %s with %d elements", y.DType(), len(y.Float16s()))
	}
	for i, got := range y.AppendFloat32s(nil) {
		if got != -in[i] {
			t.Errorf("element %d: got %v, want %v", i, got, -in[i])
		}
	}
	bits := make([]uint16, 6)
	into, err := ort.NewFloat16([]int64{2, 3}, bits)
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	if err := s.RunInto([]*ort.Tensor{x}, []*ort.Tensor{into}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(bits, y.Float16s()) {
		t.Errorf("RunInto: got %x, want %x", bits, y.Float16s())
	}
}

func TestScalar(t *testing.T) {
	r := orttest.Open(t)
	s := open(t, r, model(graph(value("x", ort.Float32), value("y", ort.Float32), node("Neg", []string{"x"}, "y"))))
	in := []float32{3}
	x := tensor(t, nil, in)
	if y := run(t, s, x); len(y.Shape()) != 0 || y.Float32s()[0] != -3 {
		t.Errorf("got %v %v", y.Shape(), y.Float32s())
	}
	in[0] = 5
	out := []float32{0}
	if err := s.RunInto([]*ort.Tensor{x}, []*ort.Tensor{tensor(t, nil, out)}); err != nil {
		t.Fatal(err)
	}
	if out[0] != -5 {
		t.Errorf("a scalar changed between runs: got %v, want -5", out[0])
	}
}

func TestEmpty(t *testing.T) {
	s := open(t, orttest.Open(t), unary("Neg", ort.Float32, -1, 2))
	if y := run(t, s, tensor(t, []int64{0, 2}, []float32{})); !slices.Equal(y.Shape(), []int64{0, 2}) || len(y.Float32s()) != 0 {
		t.Errorf("got %v %v", y.Shape(), y.Float32s())
	}
}
