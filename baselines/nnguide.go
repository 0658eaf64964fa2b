package baselines

import (
	"context"
	"math"
	"runtime"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
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
		return s, checkRows(s.bank, "nnguide")
	},
}

type nnGuide struct {
	bank    blas32.General // n×h, training features of unit norm times minus their energy
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
	n, h := t.Features.Rows, t.Features.Cols
	bank := blas32.General{Rows: n, Cols: h, Stride: h, Data: make([]float32, n*h)}
	unitRows(bank, t.Features)
	for i := range n {
		scale := float32(-energy(row(t.Logits, i), 1))
		for j, v := range row(bank, i) {
			bank.Data[i*h+j] = v * scale
		}
	}
	scorers := make([]ood.Scorer, len(grid))
	for i, k := range ks {
		scorers[i] = nnGuide{bank, t.Logits.Cols, k}
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
	block := min(max(neighboursRoom/m, 16), 256, max(rows, 1))
	unit := blas32.General{Cols: h, Stride: h, Data: make([]float32, block*h)}
	products := blas32.General{Cols: m, Stride: m, Data: make([]float32, block*m)}
	for first := 0; first < rows; first += block {
		unit.Rows = min(block, rows-first)
		products.Rows = unit.Rows
		unitRows(unit, b.Slice(first, first+unit.Rows).Features)
		for j := 0; j < m; j += neighboursBlock {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			part := ood.Batch{Features: s.bank}.Slice(j, min(j+neighboursBlock, m)).Features
			blas32.Gemm(blas.NoTrans, blas.Trans, 1, unit, part, 0,
				blas32.General{Rows: unit.Rows, Cols: part.Rows, Stride: m, Data: products.Data[j:]})
		}
		workers := min(runtime.GOMAXPROCS(0), unit.Rows)
		var g errgroup.Group
		for w := range workers {
			g.Go(func() error {
				scratch := make([]float64, m)
				for r := w; r < unit.Rows; r += workers {
					dst[first+r] = energy(row(b.Logits, first+r), 1) * s.guidance(row(products, r), scratch)
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
	}
	return dst, ctx.Err()
}

// guidance is the mean of the k largest products.
func (s nnGuide) guidance(products []float32, scratch []float64) float64 {
	var all float64
	for j, v := range products {
		scratch[j] = -float64(v)
		all += float64(v)
	}
	if math.IsNaN(all) {
		return all
	}
	k := min(s.k, len(scratch))
	selectNth(scratch, k-1)
	var sum float64
	for _, v := range scratch[:k] {
		sum -= v
	}
	return sum / float64(k)
}

// State implements heads.Stater.
func (s nnGuide) State() heads.State {
	return heads.State{
		Params: map[string]any{"k": float64(s.k), "classes": float64(s.classes)},
		Arrays: map[string]heads.Array{"bank": heads.ArrayOf(s.bank)},
	}
}
