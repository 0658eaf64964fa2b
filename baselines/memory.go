package baselines

import (
	"github.com/attach-uncertainty/attach/ood"
)

// memoryOf is the type of ood.Method.Memory, in bytes.
type memoryOf func(t ood.Training, p ood.Params) float64

// squares returns the memory of n float64 matrices with features as rows and columns.
func squares(n float64) memoryOf {
	return func(t ood.Training, _ ood.Params) float64 { return n * square(t.Features.Cols) }
}

func square(width int) float64 { return 8 * float64(width) * float64(width) }

// passesMemory returns the memory of the outputs of all passes for some rows.
func passesMemory(rows float64) memoryOf {
	return func(t ood.Training, p ood.Params) float64 {
		return 8 * rows * p.Float("passes") * float64(t.Logits.Cols)
	}
}
