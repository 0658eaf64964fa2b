package baselines

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var nnGuideMethod = ood.Method{
	Name: "nnguide",
	Doc: "Energy guided by similar training rows: low if the model is confident, and if training rows nearby are predicted with confidence. Try it if neither " +
		"energy nor knn alone is good enough; the file contains all training rows. The score is minus log Σ exp(logits) times the mean of the k largest inner " +
		"products between the features and training features, both scaled to unit norm, each times the energy of its training row. If there are many training " +
		"rows, fit with a sample of them; the paper uses 1 % of ImageNet.",
	Ref:    "Park, Jung & Teoh 2023, arXiv:2309.14888",
	Needs:  ood.Needs{Features: true, Logits: true},
	Params: []ood.Param{{Name: "k", Default: 10, Takes: "count", Sweep: []any{1, 10, 50, 100}}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
		type key struct{}
		g, err := memo.Cached(ctx, t.Batch, key{}, func() (*guides, error) { return newGuides(t), nil })
		return &nnGuide{g, p.Int("k")}, err
	},
	New: func() any { return &nnGuide{guides: &guides{}} },
}

type nnGuide struct {
	*guides
	K int `state:"k,least=1"`
}

// guides holds the training rows, and a scale for each that is computed from its energy.
type guides struct {
	Bank  blas32.General `state:"bank[n,features]"`
	Scale []float64      `state:"scale[n]"` // minus the energy of each row, divided by its norm
}

func newGuides(t ood.Training) *guides {
	g := &guides{storableFeatures(t), make([]float64, t.Len())}
	for i := range g.Scale {
		g.Scale[i] = -energy(row(t.Logits, i), 1) * rows.InverseNorm(row(g.Bank, i))
	}
	return g
}

func (s *nnGuide) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	n, unit := s.Bank.Rows, rows.Unit(b.Features)
	tops := make([]topProducts, len(dst))
	for i := range tops {
		tops[i] = topProducts{k: min(s.K, n), capacity: min(n, max(2*s.K, 256)), threshold: math.Inf(1)}
	}
	const atOnce = 2048
	products := make([]float32, len(dst)*min(n, atOnce))
	for j := 0; j < n; j += atOnce {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := rows.Slice(s.Bank, j, min(j+atOnce, n))
		c := blas32.General{Rows: len(dst), Cols: part.Rows, Stride: part.Rows, Data: products}
		blas32.Gemm(blas.NoTrans, blas.Trans, 1, unit, part, 0, c)
		for i := range tops {
			tops[i].scan(row(c, i), s.Scale[j:])
		}
	}
	for i := range tops {
		dst[i] = energy(row(b.Logits, i), 1) * tops[i].mean()
	}
	return nil
}

func (s *nnGuide) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	n, h := s.Bank.Rows, s.Bank.Cols
	if err := graph.CheckBank(n, h, 4); err != nil {
		return graph.Tensor{}, err
	}
	largest, _ := b.Features.Unit().Single().MatMulT(s.Bank, n).Double().Mul(s.Scale).Top(min(s.K, n))
	return energyGraph(b.Logits, 1).Mul(largest.Mean()), nil
}

// topProducts collects the k largest products of a row with training rows.
type topProducts struct {
	k, capacity int       // number of products to find, and capacity of nearest
	nearest     []float64 // negated products, so that the largest products come first
	threshold   float64   // scan skips negated products above it
	invalid     bool      // a product was NaN or infinite
}

// scan adds the products of a row with some training rows.
func (g *topProducts) scan(products []float32, scale []float64) {
	for j, p := range products {
		v := -float64(p) * scale[j]
		if v > g.threshold {
			continue
		}
		if !rows.Finite(v) {
			g.invalid = true
			return
		}
		g.nearest = append(g.nearest, v)
		if len(g.nearest) == g.capacity && g.k < g.capacity {
			g.threshold = quantile.Select(g.nearest, g.k-1)
			g.nearest = g.nearest[:g.k]
		}
	}
}

// mean returns the mean of the k largest products.
func (g *topProducts) mean() float64 {
	if g.invalid {
		return math.NaN()
	}
	quantile.Select(g.nearest, g.k-1)
	var sum float64
	for _, v := range g.nearest[:g.k] {
		sum -= v
	}
	return sum / float64(g.k)
}
