package npy

import (
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/rows"
)

// Float32s returns the elements of a as float32. A []float32 is returned as it
// is, not copied. A float64 beyond float32's range becomes an infinity.
func Float32s(a rows.Array) ([]float32, error) {
	switch data := a.Data.(type) {
	case []float32:
		return data, nil
	case []float64:
		return convert[float64, float32](data), nil
	case []int64:
		return convert[int64, float32](data), nil
	case []uint8:
		return convert[uint8, float32](data), nil
	}
	return nil, fmt.Errorf("elements of type %T are not numbers of an array", a.Data)
}

// toFloat32 converts elements of a type that arrays have and says how many.
func toFloat32(dst []float32, data any) int {
	switch data := data.(type) {
	case []float32:
		return copy(dst, data)
	case []float64:
		return convertTo(dst, data)
	case []int64:
		return convertTo(dst, data)
	}
	return convertTo(dst, data.([]uint8))
}

// Float64s returns the elements of a as float64. A []float64 is returned as it
// is, not copied.
func Float64s(a rows.Array) ([]float64, error) {
	switch data := a.Data.(type) {
	case []float32:
		return convert[float32, float64](data), nil
	case []float64:
		return data, nil
	case []int64:
		return convert[int64, float64](data), nil
	case []uint8:
		return convert[uint8, float64](data), nil
	}
	return nil, fmt.Errorf("elements of type %T are not numbers of an array", a.Data)
}

// Ints returns the elements of a as int. Floating-point elements must be whole
// numbers.
func Ints(a rows.Array) ([]int, error) {
	switch data := a.Data.(type) {
	case []int64:
		return convert[int64, int](data), nil
	case []uint8:
		return convert[uint8, int](data), nil
	}
	data, err := Float64s(a)
	if err != nil {
		return nil, err
	}
	out := make([]int, len(data))
	for i, v := range data {
		if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
			return nil, fmt.Errorf("element %d is %v, which is not a whole number", i, v)
		}
		out[i] = int(v)
	}
	return out, nil
}

func convert[S, T uint8 | int | int64 | float32 | float64](src []S) []T {
	dst := make([]T, len(src))
	convertTo(dst, src)
	return dst
}

func convertTo[S, T uint8 | int | int64 | float32 | float64](dst []T, src []S) int {
	for i, v := range src {
		dst[i] = T(v)
	}
	return len(src)
}
