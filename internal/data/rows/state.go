// Package rows provides matrices of rows, stored arrays, and the states in which fitted
// values are saved.
package rows

import (
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"
)

// Array is a dense row-major array, as it is stored in a file. Data is a []float32,
// []float64, []int64 or []uint8. For writing only, Data may be a []bool, which is read back
// as []uint8. The length of Data is the product of Shape.
type Array struct {
	Shape []int
	Data  any
}

// Elements returns the number of elements of an array with the given shape.
func Elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// State holds everything that is needed to restore a fitted detector or interval model. The
// manifest of a .attach file stores Params as JSON. Arrays are stored as .npy files.
//
// Params contains only bool, float64 and string values. An integer is stored as float64.
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

// Float64s returns the one-dimensional float64 array with the given name.
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

// Matrix is a dense row-major matrix of float32 numbers in Single or of float64 numbers in
// Double. The other field is nil.
type Matrix struct {
	Rows, Cols int
	Single     []float32
	Double     []float64
}
