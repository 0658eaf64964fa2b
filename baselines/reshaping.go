package baselines

import (
	"context"
	"iter"
	"math"

	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

// reshaped scores a row with the energy of its logits after a reshaping of its features.
type reshaped struct {
	lastLayer
	Percentile float64 `state:"percentile,least=0,below=100"`
	reshaping
}

// reshaping changes the features phi of a row according to its largest features, in two
// forms: on numbers and on graph tensors. It also returns a factor that the product with
// the weights is multiplied by.
type reshaping struct {
	change func(dst, phi []float32, largest largestFeatures) float64
	nodes  func(phi, largest, at graph.Tensor) (changed, factor graph.Tensor)
}

// reshapingMethod completes the description of a method that reshapes the features of a
// row. The largest features are the features above a percentile of the row.
func reshapingMethod(s ood.Method, r reshaping) ood.Method {
	s.Needs = ood.Needs{Features: true, Logits: true, Weights: true}
	s.Fit = func(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
		return &reshaped{newLastLayer(ctx, t), p.Float("percentile"), r}, nil
	}
	s.New = func() any { return &reshaped{reshaping: r} }
	return s
}

func (s *reshaped) Score(_ context.Context, dst []float64, b ood.Batch) error {
	h := b.Features.Cols
	scratch := make([]float64, h)
	k := countAbove(s.Percentile, h)
	s.energies(dst, b.Features, func(changed, phi []float32) float64 {
		return s.change(changed, phi, largestOf(phi, k, scratch))
	})
	return nil
}

func (s *reshaped) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	largest, at := b.Features.Top(countAbove(s.Percentile, b.Features.Cols()))
	changed, factor := s.nodes(b.Features, largest, at)
	return s.productGraph(changed).Mul(factor).Add(s.Bias).LogSumExp().Neg(), nil
}

// countAbove returns how many of h features are above a percentile of them. It is at least
// 1.
func countAbove(percentile float64, h int) int {
	// Round half to even, as NumPy and PyTorch do.
	return max(1, h-int(math.RoundToEven(float64(h)*percentile/100)))
}

// largestFeatures describes the k largest features of a row.
type largestFeatures struct {
	k         int
	threshold float32 // the k-th largest feature
	ties      int     // number of features equal to threshold that are among the k largest
	sum, all  float64 // sums of the k largest and of all features; NaN if the row contains NaN
}

// largestOf returns the largestFeatures of a row. The buffer scratch must have the length
// of phi.
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
	l.threshold = float32(-quantile.Select(scratch, k-1))
	for _, v := range phi {
		if v > l.threshold {
			l.ties--
			l.sum += float64(v)
		}
	}
	l.sum += float64(l.ties) * float64(l.threshold)
	return l
}

// positions yields the indices of the k largest elements of phi. Among equal elements, it
// prefers lower indices.
func (l largestFeatures) positions(phi []float32) iter.Seq[int] {
	return func(yield func(int) bool) {
		for j, v := range phi {
			if v == l.threshold {
				l.ties--
			}
			if (v > l.threshold || v == l.threshold && l.ties >= 0) && !yield(j) {
				return
			}
		}
	}
}

// maxExponent limits the exponent of sharpening, because exp(500) times a logit still fits
// into float64.
const maxExponent = 500

// sharpening returns exp(all/sum), the factor of ASH-S and SCALE for a row of h features.
func (l largestFeatures) sharpening(h int) float64 {
	return math.Exp(min(l.ratio(h), maxExponent))
}

// ratio returns all/sum for a row of h features. If no feature is negative, the ratio is
// between 1 and h/k. If sum is not positive, the result is h/k.
func (l largestFeatures) ratio(h int) float64 {
	if l.sum <= 0 {
		return float64(h) / float64(l.k)
	}
	return l.all / l.sum
}

// ratioGraph adds graph nodes that compute largestFeatures.ratio.
func ratioGraph(x, largest graph.Tensor) graph.Tensor {
	sum := largest.Double().Sum()
	return sum.Neg().Less(0.).Choose(x.Double().Sum().Div(sum), float64(x.Cols())/float64(largest.Cols()))
}

// sharpeningGraph adds graph nodes that compute sharpening.
func sharpeningGraph(x, largest graph.Tensor) graph.Tensor {
	return ratioGraph(x, largest).Min(float64(maxExponent)).Exp()
}

// positiveRatio computes ratios for one row at a time, and reuses its buffers.
type positiveRatio struct {
	positive []float32
	scratch  []float64
}

// ratio returns the sum of the positive features divided by the sum of the features above a
// percentile.
func (s *positiveRatio) ratio(phi []float32, percentile float64) float64 {
	if s.positive == nil {
		s.positive, s.scratch = make([]float32, len(phi)), make([]float64, len(phi))
	}
	for j, v := range phi {
		s.positive[j] = max(v, 0)
	}
	return largestOf(s.positive, countAbove(percentile, len(phi)), s.scratch).ratio(len(phi))
}

// percentile returns the parameter "percentile".
func percentile(defaultValue float64, sweep ...any) ood.Param {
	return ood.Param{Name: "percentile", Default: defaultValue, Takes: "least=0,below=100", Sweep: sweep}
}
