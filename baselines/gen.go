package baselines

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var genMethod = ood.Method{
	Name: "gen",
	Doc: "Generalised entropy of the largest probabilities, to which small probabilities still contribute. Try it for a classifier of many classes if only " +
		"logits are known. It is Σ pᵞ(1−p)ᵞ over the `top` largest entries p of softmax(logits), where γ is the parameter gamma. If there are fewer classes " +
		"than top, all are summed.",
	Ref:   "Liu, Lochman & Zach 2023, CVPR 2023, pages 23946–23955",
	Needs: ood.Needs{Logits: true},
	// The sweep of OpenOOD also has values of top above 100.
	Params: []ood.Param{
		{Name: "gamma", Default: .1, Takes: "positive", Sweep: []any{.01, .1, .5, 1, 2, 5, 10}},
		{Name: "top", Default: 100, Takes: "count", Sweep: []any{10, 100}},
	},
	Fit: func(_ context.Context, _ ood.Training, p ood.Params) (any, error) {
		return &gen{p.Float("gamma"), p.Int("top")}, nil
	},
	New: func() any { return &gen{} },
}

type gen struct {
	Gamma float64 `state:"gamma,positive"`
	Top   int     `state:"top,least=1"` // number of classes to sum over, or all if there are fewer
}

func (s *gen) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	type key struct{}
	sorted, _ := memo.Cached(ctx, b, key{}, func() (blas32.General, error) {
		z := clone(b.Logits)
		for i := range z.Rows {
			slices.Sort(row(z, i)) // NaN comes first
		}
		return z, nil
	})
	for i := range dst {
		dst[i] = s.entropy(row(sorted, i))
	}
	return nil
}

func (s *gen) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	c := b.Logits.Cols()
	sorted, _ := b.Logits.Double().Top(c)
	below := sorted.Columns(1, c).Sub(sorted.Columns(0, 1))
	excess := below.Exp().Sum()
	logSum := excess.Log1p()
	sum := excess.Log().Sub(logSum.Mul(2.)).Mul(s.Gamma).Exp()
	if top := min(s.Top, c); top > 1 {
		logP := below.Columns(0, top-1).Sub(logSum)
		sum = sum.Add(logP.Exp().Neg().Add(1.).Log().Add(logP).Mul(s.Gamma).Exp().Sum())
	}
	return sum, nil
}

// entropy returns the score of logits z, which must be in increasing order. It uses
// logarithms, because a small power of a probability is not negligible even if the
// probability is nearly 0.
func (s *gen) entropy(z []float32) float64 {
	if math.IsNaN(float64(z[0])) {
		return math.NaN()
	}
	last := len(z) - 1
	largest := float64(z[last])
	var excess float64
	for _, v := range z[:last] {
		excess += math.Exp(float64(v) - largest)
	}
	logSum := math.Log1p(excess)
	sum := math.Exp(s.Gamma * (math.Log(excess) - 2*logSum))
	for _, v := range z[len(z)-min(s.Top, len(z)) : last] {
		logP := float64(v) - largest - logSum
		sum += math.Exp(s.Gamma * (logP + math.Log1p(-math.Exp(logP))))
	}
	return sum
}
