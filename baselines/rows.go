package baselines

import (
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/dense"
	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// row is row i of m.
func row(m blas32.General, i int) []float32 {
	return m.Data[i*m.Stride : i*m.Stride+m.Cols]
}

// clone is a contiguous copy of m.
func clone(m blas32.General) blas32.General {
	return blas32.General{Rows: m.Rows, Cols: m.Cols, Stride: max(m.Cols, 1), Data: rows.ArrayOf(m).Data.([]float32)}
}

// featureMeans are worked out once for all that are fitted to the rows of t.
func featureMeans(t ood.Training) []float64 {
	type key struct{}
	mean, _ := ood.Cached(t.Batch, key{}, func() ([]float64, error) { return dense.Means(t.Features), nil })
	return mean
}

// A single logit has a softmax of 1, whatever it is.
const leastLogits = 2
