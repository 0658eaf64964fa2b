package rows

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas32"
)

// ArrayOf copies m into an array of shape [rows, cols].
func ArrayOf(m blas32.General) Array {
	data := make([]float32, m.Rows*m.Cols)
	for i := range m.Rows {
		copy(data[i*m.Cols:(i+1)*m.Cols], m.Data[i*m.Stride:i*m.Stride+m.Cols])
	}
	return Array{Shape: []int{m.Rows, m.Cols}, Data: data}
}

// Vector is v as an array of one dimension.
func Vector(v []float64) Array {
	return Array{Shape: []int{len(v)}, Data: v}
}

// Float64s returns the float64 array called name, which must have one
// dimension.
func (s State) Float64s(name string) ([]float64, error) {
	a, err := s.array(name, 1)
	if err != nil {
		return nil, err
	}
	v, ok := a.Data.([]float64)
	if !ok || len(v) != a.Shape[0] {
		return nil, fmt.Errorf("array %q is not a float64 array of shape %v", name, a.Shape)
	}
	return v, nil
}

// Number returns the parameter called name.
func (s State) Number(name string) (float64, error) {
	v, ok := s.Params[name].(float64)
	if !ok {
		return 0, fmt.Errorf("parameter %q is missing or not a number", name)
	}
	return v, nil
}

// Whole returns the parameter called name, a whole number of at least atLeast.
func (s State) Whole(name string, atLeast int) (int, error) {
	v, err := s.Number(name)
	if err != nil {
		return 0, err
	}
	if v != math.Trunc(v) || v < float64(atLeast) || v > math.MaxUint32 {
		return 0, fmt.Errorf("parameter %q must be a whole number of at least %d, not %v", name, atLeast, v)
	}
	return int(v), nil
}

// Text returns the parameter called name.
func (s State) Text(name string) (string, error) {
	v, ok := s.Params[name].(string)
	if !ok {
		return "", fmt.Errorf("parameter %q is missing or not a string", name)
	}
	return v, nil
}

// Flag returns the parameter called name.
func (s State) Flag(name string) (bool, error) {
	v, ok := s.Params[name].(bool)
	if !ok {
		return false, fmt.Errorf("parameter %q is missing or not a boolean", name)
	}
	return v, nil
}

// Float32s returns the float32 array called name, which must have that many
// dimensions, and its shape.
func (s State) Float32s(name string, dims int) ([]int, []float32, error) {
	a, err := s.array(name, dims)
	if err != nil {
		return nil, nil, err
	}
	v, ok := a.Data.([]float32)
	n := 1
	for _, d := range a.Shape {
		n *= d
	}
	if !ok || len(v) != n {
		return nil, nil, fmt.Errorf("array %q is not a float32 array of shape %v", name, a.Shape)
	}
	return a.Shape, v, nil
}

func (s State) array(name string, dims int) (Array, error) {
	a, ok := s.Arrays[name]
	if !ok {
		return a, fmt.Errorf("array %q is missing", name)
	}
	if len(a.Shape) != dims {
		return a, fmt.Errorf("array %q has %d dimensions, want %d", name, len(a.Shape), dims)
	}
	for _, d := range a.Shape {
		if d < 0 {
			return a, fmt.Errorf("array %q has shape %v", name, a.Shape)
		}
	}
	return a, nil
}

// Matrix is a matrix without gaps between its rows, in float32 or in float64;
// the other is nil.
type Matrix struct {
	Rows, Cols int
	Single     []float32
	Double     []float64
}
