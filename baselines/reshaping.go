package baselines

import (
	"context"
	"iter"
	"math"

	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

// reshaped scores with the energy of the logits after a row was changed according to its
// largest features.
type reshaped struct {
	lastLayer
	Percentile float64 `state:"percentile,least=0,below=100"`
	reshaping
}

// reshaping changes a row whose largest features are known, and returns a factor that the
// result still has to be multiplied by: in numbers, and as graph nodes.
type reshaping struct {
	change func(dst, phi []float32, largest largestFeatures) float64
	nodes  func(phi, largest, at graph.Tensor) (changed, factor graph.Tensor)
}

// reshapingMethod completes the description of a method that changes a row according to a
// percentile of its own features.
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

// countAbove returns how many of h features lie above a percentile of them, at least 1.
func countAbove(percentile float64, h int) int {
	// The same rounding as in NumPy and PyTorch.
	return max(1, h-int(math.RoundToEven(float64(h)*percentile/100)))
}

// largestFeatures describes the k largest features of a row.
type largestFeatures struct {
	k        int
	least    float32 // the k-th largest
	ties     int     // how many of the features equal to least are among the k largest
	sum, all float64 // sums of the k largest and of all features; NaN if the row contains NaN
}

// largestOf finds the k largest elements of phi. scratch has the length of phi.
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

// positions yields the positions of the k largest elements of phi. If elements are equal, the
// first ones come first.
func (l largestFeatures) positions(phi []float32) iter.Seq[int] {
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

// largestSharpening limits the exponent: exp(500) times a logit still fits float64.
const largestSharpening = 500

// sharpening returns exp(all/sum), the factor of ASH-S and SCALE for a row of h features.
func (l largestFeatures) sharpening(h int) float64 {
	return math.Exp(min(l.ratio(h), largestSharpening))
}

// ratio returns all/sum. If features are not negative, it lies between 1 and h/k. If features
// have both signs, sum may not be positive; the result is then h/k.
func (l largestFeatures) ratio(h int) float64 {
	if l.sum <= 0 {
		return float64(h) / float64(l.k)
	}
	return l.all / l.sum
}

// ratioGraph writes the computation of ratio as graph nodes.
func ratioGraph(x, largest graph.Tensor) graph.Tensor {
	sum := largest.Double().Sum()
	return sum.Neg().Less(0.).Choose(x.Double().Sum().Div(sum), float64(x.Cols())/float64(largest.Cols()))
}

// sharpeningGraph writes the computation of sharpening as graph nodes.
func sharpeningGraph(x, largest graph.Tensor) graph.Tensor {
	return ratioGraph(x, largest).Min(float64(largestSharpening)).Exp()
}

// positiveRatio computes ratios of sums of features, and reuses its buffers between rows.
type positiveRatio struct {
	positive []float32
	scratch  []float64
}

// ratio returns the sum of all positive features divided by the sum of the features above a
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

// percentile returns the parameter of that name.
func percentile(otherwise float64, sweep ...any) ood.Param {
	return ood.Param{Name: "percentile", Default: otherwise, Takes: "least=0,below=100", Sweep: sweep}
}
