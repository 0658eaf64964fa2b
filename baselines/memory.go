package baselines

import (
	"github.com/attach-uncertainty/attach/ood"
)

// memoryFunc is the type of ood.Method.Memory, which returns bytes.
type memoryFunc func(t ood.Training, p ood.Params) float64

// squareMatrices returns the memory of n float64 matrices with features as rows and columns.
func squareMatrices(n float64) memoryFunc {
	return func(t ood.Training, _ ood.Params) float64 { return n * squareBytes(t.Features.Cols) }
}

func squareBytes(width int) float64 { return 8 * float64(width) * float64(width) }

// passesMemory returns the memory of the outputs of all passes for some rows.
func passesMemory(rows float64) memoryFunc {
	return func(t ood.Training, p ood.Params) float64 {
		return 8 * rows * p.Float("passes") * float64(t.Logits.Cols)
	}
}
