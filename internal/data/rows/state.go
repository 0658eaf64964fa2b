// Package rows provides the basic types: matrices of rows, arrays, and the states that fitted
// values are saved as.
package rows

import (
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"
)

// Array is a dense array in the form in which it is stored: row-major, with a shape. Data is
// one of []float32, []float64, []int64 or []uint8 (or, only for writing, []bool, which is read
// as []uint8). Its length is the product of Shape.
type Array struct {
	Shape []int
	Data  any
}

// Elements returns the number of elements of an array with a shape.
func Elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// State is everything that is needed to restore a fitted detector or interval model: scalars,
// which are stored in the manifest of a .attach file as JSON, and arrays, which are stored as
// .npy files.
//
// Params holds only JSON scalars: bool, float64, string. An integer is stored as float64.
type State struct {
	Params map[string]any
	Arrays map[string]Array
}

// ArrayOf copies m into an array of shape [rows, cols].
func ArrayOf(m blas32.General) Array {
	data := make([]float32, m.Rows*m.Cols)
	for i := range m.Rows {
		copy(data[i*m.Cols:(i+1)*m.Cols], m.Data[i*m.Stride:i*m.Stride+m.Cols])
	}
	return Array{Shape: []int{m.Rows, m.Cols}, Data: data}
}

// Vector returns v as a one-dimensional array.
func Vector(v []float64) Array {
	return Array{Shape: []int{len(v)}, Data: v}
}

// Float64s returns the float64 array with a name, which must have one dimension.
func (s State) Float64s(name string) ([]float64, error) {
	a, ok := s.Arrays[name]
	if !ok {
		return nil, fmt.Errorf("array %q is missing", name)
	}
	v, ok := a.Data.([]float64)
	if !ok || len(a.Shape) != 1 || len(v) != a.Shape[0] {
		return nil, fmt.Errorf("array %q is %T of shape %v, not a list of float64", name, a.Data, a.Shape)
	}
	return v, nil
}

// Matrix is a matrix without gaps between its rows, in float32 or in float64; the other field
// is nil.
type Matrix struct {
	Rows, Cols int
	Single     []float32
	Double     []float64
}
