package baselines

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/numeric/gaussian"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var pnmlMethod = ood.Method{
	Name: "pnml",
	Doc: "Regret of the last layer: how much the probability of any class could grow if the layer learned this row as that class. Try it for a classifier if " +
		"you want to flag features in directions that training rows lack. It is the regret of predictive normalised maximum likelihood: log Σ p/(p + " +
		"(1−p)·p^κ) over the softmax p, divided by the logarithm of the number of classes. κ is q/(1+q) with q = φᵀ(FᵀF)⁺φ for the training features F. The " +
		"regret is large for features in a direction in which training rows hardly vary. All features are scaled to unit norm, also before the last layer.",
	Ref:    "Bibas, Feder & Hassner 2021, arXiv:2110.09246",
	Needs:  ood.Needs{Features: true, Logits: true, Weights: true},
	Memory: squareMatrices(eigen.Squares + 1),
	Fit:    fitPNML,
	New:    func() any { return &pnml{} },
}

type pnml struct {
	lastLayer
	gaussian.Whitening
	Rows float64 `state:"rows,positive"` // number of training rows
}

func fitPNML(ctx context.Context, t ood.Training, _ ood.Params) (any, error) {
	m, err := memo.Moments(ctx, t, true)
	if err != nil {
		return nil, err
	}
	w, err := gaussian.NewWhitening(make([]float64, t.Features.Cols), m.SecondMoment(), 0)
	return &pnml{newLastLayer(ctx, t), w, float64(t.Len())}, err
}

// minProbability limits probabilities from below so that their logarithms are finite, as
// the authors' code does.
const minProbability = 1e-12

func (s *pnml) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	unit := b
	unit.Features = rows.Unit(b.Features)
	if err := s.Distances(ctx, dst, unit.Features); err != nil {
		return err
	}
	for i, z := range s.logits(ctx, unit) {
		q := dst[i] / s.Rows
		kappa := q / (1 + q)
		var sum float64
		logSum := floats.LogSumExp(z)
		for _, v := range z {
			p := min(max(math.Exp(v-logSum), minProbability), 1-minProbability)
			sum += p / (p + (1-p)*math.Pow(p, kappa))
		}
		dst[i] = math.Log(sum) / math.Log(float64(len(z)))
	}
	return nil
}

func (s *pnml) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	x := b.Features.Unit().Single()
	q := s.DistancesGraph(x).Div(s.Rows)
	z := x.MatMulT(s.Weight, len(s.Bias)).Double().Add(s.Bias)
	p := z.Sub(z.LogSumExp()).Exp().Max(minProbability).Min(1 - minProbability)
	power := p.Log().Mul(q.Div(q.Add(1.))).Exp()
	return p.Div(p.Add(p.Neg().Add(1.).Mul(power))).Sum().Log().Div(math.Log(float64(len(s.Bias)))), nil
}
