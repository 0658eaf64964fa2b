package baselines

import (
	"context"
	"iter"
	"math"

	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

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

// positiveShare is room for finding how much of a row lies in its largest
// features.
type positiveShare struct {
	positive []float32
	scratch  []float64
}

// of is the sum of all positive features over that of those above a percentile of
// all features.
func (s *positiveShare) of(phi []float32, percentile float64) float64 {
	if s.positive == nil {
		s.positive, s.scratch = make([]float32, len(phi)), make([]float64, len(phi))
	}
	for j, v := range phi {
		s.positive[j] = max(v, 0)
	}
	return largestOf(s.positive, countAbove(percentile, len(phi)), s.scratch).ratio(len(phi))
}

// percentile is the parameter of that name.
func percentile(otherwise float64, sweep ...any) ood.Param {
	return ood.Param{Name: "percentile", Default: otherwise, Takes: "least=0,below=100", Sweep: sweep}
}
