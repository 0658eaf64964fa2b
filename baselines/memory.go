package baselines

import (
	"github.com/attach-uncertainty/attach/ood"
)

// memoryFunc is the type of ood.Method.Memory. It returns bytes.
type memoryFunc func(t ood.Training, p ood.Params) float64

// squareMatrices returns a function for the memory of n float64 matrices with one row and
// one column for each feature.
func squareMatrices(n float64) memoryFunc {
	return func(t ood.Training, _ ood.Params) float64 { return n * squareBytes(t.Features.Cols) }
}

// squareBytes returns the size in bytes of a float64 matrix of width×width.
func squareBytes(width int) float64 { return 8 * float64(width) * float64(width) }

// passesMemory returns a function that computes the size of the outputs of all passes over
// the given number of rows.
func passesMemory(rows float64) memoryFunc {
	return func(t ood.Training, p ood.Params) float64 {
		return 8 * rows * p.Float("passes") * float64(t.Logits.Cols)
	}
}
