package baselines

import (
	"context"
	"iter"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach/internal/graph"
	"github.com/attach-uncertainty/attach/internal/quantile"
	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/internal/sharing"
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
	l, _ := sharing.Cached(t.Batch, key{t.Last}, func() (lastLayer, error) {
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
	y := rows.New(x.Rows, c)
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
	product, _ := sharing.Cached(b, key{&l.Weight.Data[0]}, func() (blas32.General, error) { return l.product(b.Features), nil })
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

// energies writes the energy −log Σ exp(z) of the logits z that the layer makes
// of changed features. change writes what becomes of a row to dst, which is of
// zeros, and returns a factor that dst is still to be multiplied with.
func (l lastLayer) energies(energies []float64, x blas32.General, change func(dst, phi []float32) float64) {
	changed := rows.New(x.Rows, x.Cols)
	factors := make([]float64, x.Rows)
	for i := range factors {
		factors[i] = change(row(changed, i), row(x, i))
		if math.IsInf(factors[i], 0) {
			factors[i] = math.NaN() // as unlessFinite has it
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

// productGraph writes what product makes of x.
func (l lastLayer) productGraph(x graph.Tensor) graph.Tensor {
	y := x.Single().MatMulT(l.Weight, len(l.Bias)).Double()
	return y.Add(y.Mul(0.).Sum())
}

// logitsGraph writes what the layer makes of x.
func (l lastLayer) logitsGraph(x graph.Tensor) graph.Tensor { return l.productGraph(x).Add(l.Bias) }

// energyGraph writes the energy of the logits that the layer makes of changed
// features.
func (l lastLayer) energyGraph(x graph.Tensor) graph.Tensor {
	return l.logitsGraph(x).LogSumExp().Neg()
}

// reshaped scores with the energy of what a row's largest features make of it.
type reshaped struct {
	lastLayer
	Percentile float64 `state:"percentile,least=0,below=100"`
	reshaping
}

// reshaping is what a row, of which the largest features are known, becomes, and a
// factor that it is still to be multiplied with: of numbers, and as nodes of a
// graph.
type reshaping struct {
	change func(dst, phi []float32, largest largestFeatures) float64
	nodes  func(phi, largest, at graph.Tensor) (changed, factor graph.Tensor)
}

// reshapingMethod completes the description of a method that changes a row by a
// percentile of its own features.
func reshapingMethod(s ood.Method, r reshaping) ood.Method {
	s.Needs = ood.Needs{Features: true, Logits: true, Weights: true}
	s.Fit = func(_ context.Context, t ood.Training, p ood.Params) (any, error) {
		return &reshaped{newLastLayer(t), p.Float("percentile"), r}, nil
	}
	s.New = func() any { return &reshaped{reshaping: r} }
	return s
}

// Score implements ood.Detector.
func (s *reshaped) Score(_ context.Context, dst []float64, b ood.Batch) error {
	h := b.Features.Cols
	scratch := make([]float64, h)
	k := countAbove(s.Percentile, h)
	s.energies(dst, b.Features, func(changed, phi []float32) float64 {
		return s.change(changed, phi, largestOf(phi, k, scratch))
	})
	return nil
}

// ScoreGraph implements graph.Detector.
func (s *reshaped) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	largest, at := b.Features.Top(countAbove(s.Percentile, b.Features.Cols()))
	changed, factor := s.nodes(b.Features, largest, at)
	return s.productGraph(changed).Mul(factor).Add(s.Bias).LogSumExp().Neg(), nil
}

// countAbove is how many of h features lie above a percentile of them, at least 1.
func countAbove(percentile float64, h int) int {
	// NumPy and PyTorch round so.
	return max(1, h-int(math.RoundToEven(float64(h)*percentile/100)))
}

// largestFeatures are the k largest of a row.
type largestFeatures struct {
	k        int
	least    float32 // the k-th largest
	ties     int     // how many of those that equal it are among them
	sum, all float64 // of them, and of all; NaN of a row with NaN
}

// largestOf finds the k largest of phi. scratch is as long.
func largestOf(phi []float32, k int, scratch []float64) largestFeatures {
	l := largestFeatures{k: k, ties: k}
	for j, v := range phi {
		scratch[j] = -float64(v)
		l.all += float64(v)
	}
	if math.IsNaN(l.all) {
		l.sum = l.all
		return l
	}
	l.least = float32(-quantile.Select(scratch, k-1))
	for _, v := range phi {
		if v > l.least {
			l.ties--
			l.sum += float64(v)
		}
	}
	l.sum += float64(l.ties) * float64(l.least)
	return l
}

// places are where they are in phi; ties go to the first.
func (l largestFeatures) places(phi []float32) iter.Seq[int] {
	return func(yield func(int) bool) {
		for j, v := range phi {
			if v == l.least {
				l.ties--
			}
			if (v > l.least || v == l.least && l.ties >= 0) && !yield(j) {
				return
			}
		}
	}
}

// The factor exp(500) leaves room for logits in float64.
const largestSharpening = 500

// sharpening is exp(all/sum), the factor of ASH-S and SCALE for a row of h
// features.
func (l largestFeatures) sharpening(h int) float64 {
	return math.Exp(min(l.ratio(h), largestSharpening))
}

// ratio is all/sum. Of features that are zero or more it lies between 1 and h/k;
// features of both signs can have a sum that is not positive, and then it is
// taken to be h/k.
func (l largestFeatures) ratio(h int) float64 {
	if l.sum <= 0 {
		return float64(h) / float64(l.k)
	}
	return l.all / l.sum
}

// ratioGraph writes ratio for rows and their largest features.
func ratioGraph(x, largest graph.Tensor) graph.Tensor {
	sum := largest.Double().Sum()
	return sum.Neg().Less(0.).Choose(x.Double().Sum().Div(sum), float64(x.Cols())/float64(largest.Cols()))
}

// sharpeningGraph is ratioGraph for sharpening.
func sharpeningGraph(x, largest graph.Tensor) graph.Tensor {
	return ratioGraph(x, largest).Min(float64(largestSharpening)).Exp()
}
