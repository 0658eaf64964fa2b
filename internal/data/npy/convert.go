package npy

import (
	"fmt"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Float32s returns the elements of a as float32. It does not copy elements that are already
// float32. A float64 beyond the range of float32 becomes an infinity.
func Float32s(a rows.Array) []float32 {
	if data, ok := a.Data.([]float32); ok {
		return data
	}
	return appendFloat32s(nil, a.Data)
}

func appendFloat32s(dst []float32, data any) []float32 {
	switch data := data.(type) {
	case []float32:
		return append(dst, data...)
	case []float64:
		return appendAs(dst, data)
	case []int64:
		return appendAs(dst, data)
	}
	return appendAs(dst, data.([]uint8))
}

// Ints returns the elements of a as int. It returns an error for a floating-point element
// that is not a whole number, or is beyond ±2⁵³.
func Ints(a rows.Array) ([]int, error) {
	var data []float64
	switch d := a.Data.(type) {
	case []int64:
		return appendAs([]int(nil), d), nil
	case []uint8:
		return appendAs([]int(nil), d), nil
	case []float32:
		data = appendAs(data, d)
	case []float64:
		data = d
	}
	for i, v := range data {
		if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
			return nil, fmt.Errorf("element %d is %v, which is not a whole number", i, v)
		}
	}
	return appendAs([]int(nil), data), nil
}

func appendAs[S, T uint8 | int | int64 | float32 | float64](dst []T, src []S) []T {
	dst = slices.Grow(dst, len(src))
	for _, v := range src {
		dst = append(dst, T(v))
	}
	return dst
}
