package baselines

import (
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// memoryOf is the type of ood.Method.Memory.
type memoryOf func(t ood.Training, p ood.Values) float64

// eigenSquares are the matrices of width × width that are held where an
// eigenproblem of the features is solved: moments, what they are reduced to,
// three of eigenvectors on their way, and what is made of them.
const eigenSquares = 7

// squares are n matrices of all features by all features, in float64.
func squares(n float64) memoryOf {
	return func(t ood.Training, _ ood.Values) float64 { return n * square(t.Features.Cols) }
}

func square(width int) float64 { return 8 * float64(width) * float64(width) }

// trainingBytes are what training takes for each weight.
const trainingBytes = 64

// trained is what training certificates takes, and their products with each
// other.
func trained(t ood.Training, p ood.Values) float64 {
	h := t.Features.Cols
	k := p.Count("k", h)
	if k == 0 {
		k = heads.DefaultK(h)
	}
	return trainingBytes*float64(h)*float64(k) + 2*square(k)
}

// passesMemory is what the outputs of all passes of some rows take.
func passesMemory(rows float64) memoryOf {
	return func(t ood.Training, p ood.Values) float64 {
		return 8 * rows * p.Float("passes") * float64(t.Logits.Cols)
	}
}

// smallNetwork is what training a network of one hidden layer takes.
func smallNetwork(t ood.Training, hidden, k float64) float64 {
	return trainingBytes * hidden * (float64(t.Features.Cols) + k)
}
