package ood

import (
	"errors"
	"fmt"
	"math"
)

// InputScale says how far a network's input moves where the raw input moves by
// one. For images the raw input is pixels scaled to [0,1], and a network whose
// preprocessing divides channel c by std[c] has the factor 1/std[c]. The zero
// value stands for a factor of 1 throughout.
type InputScale struct {
	// Factor has one entry for everything, or one per index along Axis.
	Factor []float32
	// Axis counts the axes of a row, without the number of rows, from 0: it is
	// 0 for images whose channels come first and 2 where they come last.
	Axis int
}

// Check refuses factors that are not positive numbers.
func (s InputScale) Check() error {
	for _, f := range s.Factor {
		if !(f > 0) || math.IsInf(float64(f), 0) {
			return fmt.Errorf("input scale %v must be positive", f)
		}
	}
	if s.Axis < 0 {
		return errors.New("the axis of the input scale is negative")
	}
	return nil
}

// Row returns the factor of every number of a row of the given shape, without
// the number of rows. It is an error if the factors do not fit the shape.
func (s InputScale) Row(shape []int) ([]float32, error) {
	width := 1
	for _, d := range shape {
		width *= d
	}
	factors := make([]float32, width)
	if len(s.Factor) < 2 {
		f := float32(1)
		if len(s.Factor) == 1 {
			f = s.Factor[0]
		}
		for i := range factors {
			factors[i] = f
		}
		return factors, nil
	}
	if s.Axis < 0 || s.Axis >= len(shape) || shape[s.Axis] != len(s.Factor) {
		return nil, fmt.Errorf("%d input scales along axis %d of rows of shape %v", len(s.Factor), s.Axis, shape)
	}
	inner := 1
	for _, d := range shape[s.Axis+1:] {
		inner *= d
	}
	for i := range factors {
		factors[i] = s.Factor[i/inner%len(s.Factor)]
	}
	return factors, nil
}
