package baselines

import (
	"context"
	"iter"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

// lastLayer is the last layer of a network with h features and c logits.
type lastLayer struct {
	Weight blas32.General `state:"weight[logits,features]"` // c×h, contiguous
	Bias   []float64      `state:"bias[logits]"`            // c
}

// newLastLayer returns a copy of the last layer. All methods that are fitted to the rows of
// t share one copy.
func newLastLayer(ctx context.Context, t ood.Training) lastLayer {
	type key struct{ *ood.Linear }
	l, _ := memo.Cached(ctx, t.Batch, key{t.Last}, func() (lastLayer, error) {
		l := lastLayer{clone(t.Last.Weight), make([]float64, t.Last.Weight.Rows)}
		for k, v := range t.Last.Bias {
			l.Bias[k] = float64(v)
		}
		return l, nil
	})
	return l
}

// product returns the output of the layer for the rows of x, without the bias.
func (l lastLayer) product(x blas32.General) blas32.General {
	c := l.Weight.Rows
	y := rows.New(x.Rows, c)
	blas32.Gemm(blas.NoTrans, blas.Trans, 1, x, l.Weight, 0, y)
	for i := range y.Rows {
		nanIfOverflow(row(y, i))
	}
	return y
}

// nanIfOverflow sets all elements of a row to NaN if one of them overflowed. Otherwise, an
// infinite logit would look like certainty.
func nanIfOverflow(z []float32) {
	if rows.CheckFinite("", blas32.General{Rows: 1, Cols: len(z), Stride: len(z), Data: z}) == nil {
		return
	}
	for k := range z {
		z[k] = float32(math.NaN())
	}
}

// logits yields the index and the logits of each row of b. It reuses the slice of logits
// for the next row.
func (l lastLayer) logits(ctx context.Context, b ood.Batch) iter.Seq2[int, []float64] {
	type key struct{ weight *float32 }
	product, _ := memo.Cached(ctx, b, key{&l.Weight.Data[0]}, func() (blas32.General, error) { return l.product(b.Features), nil })
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

// energies computes logits for changed features, and writes their energy −log Σ
// exp(logits). The function change writes the changed row to dst, which contains zeros. It
// returns a factor that dst is multiplied by afterwards.
func (l lastLayer) energies(energies []float64, x blas32.General, change func(dst, phi []float32) float64) {
	changed := rows.New(x.Rows, x.Cols)
	factors := make([]float64, x.Rows)
	for i := range factors {
		factors[i] = change(row(changed, i), row(x, i))
		if math.IsInf(factors[i], 0) {
			factors[i] = math.NaN() // the factor overflowed; see nanIfOverflow
		}
	}
	product := l.product(changed)
	z := make([]float64, len(l.Bias))
	for i, f := range factors {
		for k, v := range row(product, i) {
			z[k] = f*float64(v) + l.Bias[k]
		}
		energies[i] = -floats.LogSumExp(z)
	}
}

// productGraph adds graph nodes that compute product. They include nanIfOverflow.
func (l lastLayer) productGraph(x graph.Tensor) graph.Tensor {
	y := x.Single().MatMulT(l.Weight, len(l.Bias)).Double()
	return y.Add(y.Mul(0.).Sum())
}

// logitsGraph adds graph nodes that compute the logits for rows x.
func (l lastLayer) logitsGraph(x graph.Tensor) graph.Tensor { return l.productGraph(x).Add(l.Bias) }

// energyGraph adds graph nodes that compute the energy of the logits for rows x.
func (l lastLayer) energyGraph(x graph.Tensor) graph.Tensor {
	return l.logitsGraph(x).LogSumExp().Neg()
}
