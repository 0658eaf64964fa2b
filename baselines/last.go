package baselines

import (
	"iter"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// lastLayer is a network's last layer, kept by methods that work on its input.
type lastLayer struct {
	Weight blas32.General `state:"weight[logits,features]"` // c×h, contiguous
	Bias   []float64      `state:"bias[logits]"`            // c
}

// newLastLayer copies a layer, once for all that are fitted to the rows of t.
func newLastLayer(t ood.Training) lastLayer {
	type key struct{ *ood.Linear }
	l, _ := ood.Cached(t.Batch, key{t.Last}, func() (lastLayer, error) {
		l := lastLayer{clone(t.Last.Weight), make([]float64, t.Last.Weight.Rows)}
		for k, v := range t.Last.Bias {
			l.Bias[k] = float64(v)
		}
		return l, nil
	})
	return l
}

// product is what the layer makes of x without the bias.
func (l lastLayer) product(x blas32.General) blas32.General {
	c := l.Weight.Rows
	y := blas32.General{Rows: x.Rows, Cols: c, Stride: c, Data: make([]float32, x.Rows*c)}
	blas32.Gemm(blas.NoTrans, blas.Trans, 1, x, l.Weight, 0, y)
	for i := range y.Rows {
		unlessFinite(row(y, i))
	}
	return y
}

// unlessFinite makes a row NaN as a whole where it overflows: an infinite logit
// would pass for certainty.
func unlessFinite(z []float32) {
	if rows.CheckFinite("", blas32.General{Rows: 1, Cols: len(z), Stride: len(z), Data: z}) == nil {
		return
	}
	for k := range z {
		z[k] = float32(math.NaN())
	}
}

// logits are what the layer makes of every row of b, which are reused.
func (l lastLayer) logits(b ood.Batch) iter.Seq2[int, []float64] {
	type key struct{ weight *float32 }
	product, _ := ood.Cached(b, key{&l.Weight.Data[0]}, func() (blas32.General, error) { return l.product(b.Features), nil })
	z := make([]float64, len(l.Bias))
	return func(yield func(int, []float64) bool) {
		for i := range product.Rows {
			for k, v := range row(product, i) {
				z[k] = float64(v) + l.Bias[k]
			}
			if !yield(i, z) {
				return
			}
		}
	}
}
