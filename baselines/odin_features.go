package baselines

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// ODINFeatures is ODIN with the features in place of the input: the last layer
// alone is differentiated, in closed form.
var ODINFeatures = ood.Method{
	Name: "odin-features",
	Doc: "ODIN with the features φ in place of the input, for networks that cannot be differentiated: minus the largest entry of " +
		"softmax((W(φ+ε·s)+b) / temperature), with s the signs of the gradient of log softmax of the predicted class with respect to φ. " +
		"epsilon is in units of the features.",
	Ref:     "after Liang, Li & Srikant 2018, arXiv:1706.02690",
	Needs:   ood.NeedFeatures | ood.NeedLogits | ood.NeedWeights,
	Default: ood.Params{"temperature": 1000., "epsilon": .0014},
	Grid:    odinGrid(),
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitODINFeatures(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitODINFeatures,
	Restore: func(st heads.State) (ood.Scorer, error) {
		l, err := restoreLast(st)
		if err != nil {
			return nil, err
		}
		step, err := restoreStep(st)
		if err != nil {
			return nil, err
		}
		return odinFeatures{l, step}, nil
	},
}

type odinFeatures struct {
	lastLayer
	odinStep
}

func fitODINFeatures(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	l, err := newLastLayer(t, "odin-features")
	if err != nil {
		return nil, err
	}
	scorers := make([]ood.Scorer, len(grid))
	for i, p := range grid {
		step, err := readODIN(p)
		if err != nil {
			return nil, err
		}
		scorers[i] = odinFeatures{l, step}
	}
	return scorers, ctx.Err()
}

// Score implements ood.Scorer.
func (s odinFeatures) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	c, h := s.weight.Rows, s.weight.Cols
	dst = scores(dst, b.Len())
	moved := make([]float32, c)
	err := s.each(ctx, b, func(first int, phi, product blas32.General) {
		n := phi.Rows
		// The gradient of log softmax(z/T)_k with respect to φ is
		// (w_k − Σ p_j w_j)/T, and its signs move the logits by ε·W·s.
		upstream := blas32.General{Rows: n, Cols: c, Stride: c, Data: make([]float32, n*c)}
		for i := range n {
			s.upstream(row(upstream, i), s.logits(moved, row(product, i)))
		}
		signs := blas32.General{Rows: n, Cols: h, Stride: h, Data: make([]float32, n*h)}
		blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, upstream, s.weight, 0, signs)
		for i, v := range signs.Data {
			signs.Data[i] = float32(sign(v))
		}
		blas32.Gemm(blas.NoTrans, blas.Trans, 1, signs, s.weight, 0, upstream)
		for i := range n {
			z := s.logits(moved, row(product, i))
			for k, v := range row(upstream, i) {
				z[k] = float32(float64(row(product, i)[k]) + s.bias[k] + s.epsilon*float64(v))
			}
			dst[first+i] = minusLargest(z, s.temperature)
		}
	})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// upstream writes the gradient of log softmax(z/T) of the predicted class with
// respect to z, times T, to dst.
func (s odinFeatures) upstream(dst, z []float32) {
	p := newSoftmax(z, s.temperature)
	for k, v := range z {
		dst[k] = float32(-p.of(v, s.temperature))
	}
	dst[p.top] = float32(p.excess / (1 + p.excess))
}

// State implements heads.Stater.
func (s odinFeatures) State() heads.State { return s.state(s.params()) }
