package baselines

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var odinFeaturesMethod = ood.Method{
	Name: "odin-features",
	Doc: "ODIN with a step of the features in place of the input. Use it in place of odin for networks that cannot be differentiated, or if scores must be " +
		"fast. The score is minus the largest entry of softmax((W(φ+ε·s)+b) / temperature), where s holds the signs of the gradient of log softmax of the " +
		"predicted class with respect to φ. epsilon is in units of the features.",
	Ref:    "after Liang, Li & Srikant 2018, arXiv:1706.02690",
	Needs:  ood.Needs{Features: true, Logits: true, Weights: true},
	Params: odinParams(),
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
		return &odinFeatures{newLastLayer(ctx, t), odinStep{p.Float("temperature"), p.Float("epsilon")}}, nil
	},
	New: func() any { return &odinFeatures{} },
}

type odinFeatures struct {
	lastLayer
	odinStep
}

func (s *odinFeatures) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	type key struct {
		weight      *float32
		temperature float64
	}
	slopes, _ := memo.Cached(ctx, b, key{&s.Weight.Data[0], s.Temperature}, func() (blas32.General, error) { return s.slopes(ctx, b), nil })
	moved := make([]float32, len(s.Bias))
	for i, z := range s.logits(ctx, b) {
		for k, v := range row(slopes, i) {
			moved[k] = float32(z[k] + s.Epsilon*float64(v))
		}
		dst[i] = minusLargest(moved, s.Temperature)
	}
	return nil
}

func (s *odinFeatures) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	z := s.logitsGraph(b.Features)
	scaled := z.Single().Double().Div(s.Temperature)
	// The signs of the gradient equal the signs of Σ exp(z_k/T)·(w_y − w_k).
	others := scaled.ArgMax().NotOneHot(z.Cols()).Choose(scaled.Sub(scaled.RowMax()).Exp(), 0.)
	upstream := scaled.ArgMax().NotOneHot(z.Cols()).Choose(others.Neg(), others.Sum())
	slopes := s.productGraph(upstream.Single().MatMul(s.Weight).Sign())
	return minusLargestGraph(z.Add(slopes.Mul(s.Epsilon)).Single().Double(), s.Temperature), nil
}

// slopes returns the change of the logits of each row if epsilon is 1. It is W·s, where s
// holds the signs of (w_y − Σ p_k w_k)/T, the gradient of log softmax(z/T)_y with respect
// to φ.
func (s *odinFeatures) slopes(ctx context.Context, b ood.Batch) blas32.General {
	n, c, h := b.Features.Rows, s.Weight.Rows, s.Weight.Cols
	upstream := rows.New(n, c)
	z := make([]float32, c)
	for i, logits := range s.logits(ctx, b) {
		for k, v := range logits {
			z[k] = float32(v)
		}
		p := softmax.New(z, s.Temperature)
		to := row(upstream, i)
		for k, v := range z {
			to[k] = float32(-p.Of(v, s.Temperature))
		}
		to[p.Top] = float32(p.Excess / (1 + p.Excess))
	}
	signs := rows.New(n, h)
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, upstream, s.Weight, 0, signs)
	for i, v := range signs.Data {
		signs.Data[i] = float32(sign(v))
	}
	return s.product(signs)
}
