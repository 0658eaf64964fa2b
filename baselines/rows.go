package baselines

import (
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/rows"
)

// row is row i of m.
func row(m blas32.General, i int) []float32 {
	return m.Data[i*m.Stride : i*m.Stride+m.Cols]
}

// clone is a contiguous copy of m.
func clone(m blas32.General) blas32.General {
	return blas32.General{Rows: m.Rows, Cols: m.Cols, Stride: max(m.Cols, 1), Data: rows.ArrayOf(m).Data.([]float32)}
}

func squaredNorm(x []float64) float64 {
	v := vector64(x)
	return blas64.Dot(v, v)
}

// featureMeans are worked out once for all that are fitted to the rows of t.
func featureMeans(t ood.Training) []float64 {
	type key struct{}
	mean, _ := ood.Cached(t.Batch, key{}, func() ([]float64, error) { return columnMeans(t.Features), nil })
	return mean
}

func columnMeans(m blas32.General) []float64 {
	mean := make([]float64, m.Cols)
	for i := range m.Rows {
		for j, v := range row(m, i) {
			mean[j] += float64(v)
		}
	}
	for j := range mean {
		mean[j] /= float64(m.Rows)
	}
	return mean
}

// A single logit has a softmax of 1, whatever it is.
const leastLogits = 2
