package baselines

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/ood"
)

// boundaries holds the last layer, and the distances between its rows of weights. Both
// determine the distance of features from a decision boundary.
type boundaries struct {
	lastLayer
	once      sync.Once
	distances blas64.General // c×c: distances between all pairs of rows of the weights
}

// classMatrixMemory returns the memory in bytes for the distances between the weights of
// all classes.
func classMatrixMemory(t ood.Training, _ ood.Params) float64 { return squareBytes(t.Logits.Cols) }

// distancesFrom returns the distances between row y of the weights and every row. Because
// they are divisors, they are at least the smallest positive float32.
func (s *boundaries) distancesFrom(y int) []float64 {
	s.once.Do(func() {
		w, c := dense.Less(s.Weight, nil), s.Weight.Rows
		s.distances = dense.New(c, c)
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, w, w, 0, s.distances)
		squares := make([]float64, c)
		for i := range squares {
			squares[i] = dense.Row(s.distances, i)[i]
		}
		for i, square := range squares {
			for k, dot := range dense.Row(s.distances, i) {
				dense.Row(s.distances, i)[k] = max(math.Sqrt(max(square+squares[k]-2*dot, 0)), math.SmallestNonzeroFloat32)
			}
		}
	})
	return dense.Row(s.distances, y)
}
