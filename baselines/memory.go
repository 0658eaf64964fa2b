package baselines

import (
	"github.com/attach-uncertainty/attach/ood"
)

// memoryOf is the type of ood.Method.Memory.
type memoryOf func(t ood.Training, p ood.Params) float64

// squares are n matrices of all features by all features, in float64.
func squares(n float64) memoryOf {
	return func(t ood.Training, _ ood.Params) float64 { return n * square(t.Features.Cols) }
}

func square(width int) float64 { return 8 * float64(width) * float64(width) }

// passesMemory is what the outputs of all passes of some rows take.
func passesMemory(rows float64) memoryOf {
	return func(t ood.Training, p ood.Params) float64 {
		return 8 * rows * p.Float("passes") * float64(t.Logits.Cols)
	}
}
