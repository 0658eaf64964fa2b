package baselines

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/neighbours"
	"github.com/attach-uncertainty/attach/internal/quantile"
	"github.com/attach-uncertainty/attach/ood"
)

// NNGuide trusts the energy of a row as far as training rows like it have a low
// energy too.
var NNGuide = ood.Method{
	Name: "nnguide",
	Doc: "Minus log Σ exp(logits) times the mean of the k largest inner products between the features and training features, all of unit " +
		"norm, each times log Σ exp(logits) of its training row. All training rows are kept: fit with a sample of them where they are many, " +
		"as the paper does with 1 % of ImageNet.",
	Ref:     "Park, Jung & Teoh 2023, arXiv:2309.14888",
	Needs:   ood.NeedFeatures | ood.NeedLogits,
	Default: ood.Params{"k": 10.},
	Grid:    []ood.Params{{"k": 1.}, {"k": 10.}, {"k": 50.}, {"k": 100.}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitNNGuide(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitNNGuide,
	Restore: func(st heads.State) (ood.Scorer, error) {
		var s nnGuide
		var err error
		if s.k, err = whole(st, "k", 1); err != nil {
			return nil, err
		}
		if s.classes, err = whole(st, "classes", leastLogits); err != nil {
			return nil, err
		}
		if s.bank, err = st.General("bank"); err != nil {
			return nil, err
		}
		if s.scale, err = st.Float64s("scale"); err != nil {
			return nil, err
		}
		if len(s.scale) != s.bank.Rows {
			return nil, fmt.Errorf("%d scales of %d training rows", len(s.scale), s.bank.Rows)
		}
		if err := checkFinite64("scale", s.scale); err != nil {
			return nil, err
		}
		return s, checkRows(s.bank, "nnguide")
	},
}

type nnGuide struct {
	bank    blas32.General // n×h, training features
	scale   []float64      // n, their energies over their norms, negated
	classes int
	k       int
}

func fitNNGuide(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	ks := make([]int, len(grid))
	for i, p := range grid {
		r := p.Reader()
		ks[i] = r.Count("k", 10)
		if err := r.Err(); err != nil {
			return nil, err
		}
	}
	if err := checkBoth(t, "nnguide"); err != nil {
		return nil, err
	}
	kept := bank(t)
	scale := make([]float64, kept.Rows)
	for i := range scale {
		scale[i] = -energy(row(t.Logits, i), 1) * neighbours.InverseNorm(row(kept, i))
	}
	scorers := make([]ood.Scorer, len(grid))
	for i, k := range ks {
		scorers[i] = nnGuide{kept, scale, t.Logits.Cols, k}
	}
	return scorers, ctx.Err()
}

// Score implements ood.Scorer.
func (s nnGuide) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkBothWidths(b, s.bank.Cols, s.classes); err != nil {
		return nil, err
	}
	rows, m, h := b.Features.Rows, s.bank.Rows, s.bank.Cols
	dst = scores(dst, rows)
	guides := make([]guide, min(max(guidesRoom/s.room(), 8), 1024, max(rows, 1)))
	unit := blas32.General{Rows: len(guides), Cols: h, Stride: h, Data: make([]float32, len(guides)*h)}
	products := make([]float32, len(guides)*guidesRows)
	for first := 0; first < rows; first += len(guides) {
		unit.Rows = min(len(guides), rows-first)
		unitRows(unit, ood.Batch{Features: b.Features}.Slice(first, first+unit.Rows).Features)
		for i := range guides {
			guides[i] = guide{nearest: guides[i].nearest[:0], cut: math.Inf(1)}
		}
		for j := 0; j < m; j += guidesRows {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			part := ood.Batch{Features: s.bank}.Slice(j, min(j+guidesRows, m)).Features
			c := blas32.General{Rows: unit.Rows, Cols: part.Rows, Stride: part.Rows, Data: products[:unit.Rows*part.Rows]}
			blas32.Gemm(blas.NoTrans, blas.Trans, 1, unit, part, 0, c)
			for r := range unit.Rows {
				s.scan(&guides[r], row(c, r), s.scale[j:])
			}
		}
		for r := range unit.Rows {
			dst[first+r] = energy(row(b.Logits, first+r), 1) * s.guidance(&guides[r])
		}
	}
	return dst, ctx.Err()
}

const (
	guidesRows = 2048    // training rows in one product
	guidesRoom = 4 << 20 // products held at a time
)

// guide is what is known of the training rows most like a row.
type guide struct {
	nearest []float64 // scaled products, negated
	cut     float64   // none above is looked at
	invalid bool      // a product was NaN, or overflowed
}

// room is how many products are held of a row.
func (s nnGuide) room() int { return min(s.bank.Rows, max(2*s.k, 256)) }

// scan looks at the products of a row with training rows.
func (s nnGuide) scan(g *guide, products []float32, scale []float64) {
	for j, p := range products {
		v := -float64(p) * scale[j]
		if v > g.cut {
			continue
		}
		if v-v != 0 {
			g.invalid = true
			return
		}
		g.nearest = append(g.nearest, v)
		if len(g.nearest) == s.room() && s.k < s.room() {
			g.cut = quantile.Select(g.nearest, s.k-1)
			g.nearest = g.nearest[:s.k]
		}
	}
}

// guidance is the mean of the k largest products.
func (s nnGuide) guidance(g *guide) float64 {
	if g.invalid {
		return math.NaN()
	}
	k := min(s.k, len(g.nearest))
	quantile.Select(g.nearest, k-1)
	var sum float64
	for _, v := range g.nearest[:k] {
		sum -= v
	}
	return sum / float64(k)
}

// State implements heads.Stater.
func (s nnGuide) State() heads.State {
	return heads.State{
		Params: map[string]any{"k": float64(s.k), "classes": float64(s.classes)},
		Arrays: map[string]heads.Array{"bank": stored(s.bank), "scale": heads.Vector(s.scale)},
	}
}
