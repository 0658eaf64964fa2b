package baselines

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// KLMatching compares what is predicted with what is usually predicted where
// the same class comes first.
var KLMatching = ood.Method{
	Name: "kl-matching",
	Doc: "The least KL(softmax(logits) ‖ d) over the typical distributions d, in nats: for each class, the mean of softmax(logits) " +
		"over the training rows predicted as that class. No labels are needed. Classes that are never predicted have no d.",
	Ref:   "Hendrycks et al. 2022, arXiv:1911.11132",
	Needs: ood.NeedLogits,
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		if err := p.Reader().Err(); err != nil {
			return nil, err
		}
		return fitKLMatching(ctx, t)
	},
	Restore: func(st heads.State) (ood.Scorer, error) {
		c, err := whole(st, "classes", leastLogits)
		if err != nil {
			return nil, err
		}
		k, err := whole(st, "distributions", 1)
		if err != nil {
			return nil, err
		}
		d, err := finiteMatrix64(st, "log_distributions", k, c)
		if err != nil {
			return nil, err
		}
		return klMatching{d}, nil
	},
}

type klMatching struct {
	logs blas64.General // k×c, the logarithms of typical distributions
}

func fitKLMatching(ctx context.Context, t ood.Training) (ood.Scorer, error) {
	c := t.Logits.Cols
	if err := checkClasses(c); err != nil {
		return nil, err
	}
	if err := checkLogitRows(t.Logits, "kl-matching"); err != nil {
		return nil, err
	}
	sums := make([][]float64, c)
	p := make([]float64, c)
	counts := make([]float64, c)
	for i := range t.Logits.Rows {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		top := probabilities(p, row(t.Logits, i))
		if sums[top] == nil {
			sums[top] = make([]float64, c)
		}
		for k, v := range p {
			sums[top][k] += v
		}
		counts[top]++
	}
	d := blas64.General{Cols: c, Stride: c}
	for k, sum := range sums {
		if sum == nil {
			continue
		}
		for _, v := range sum {
			// A class without any mass is given the least there is: divergences
			// stay finite.
			d.Data = append(d.Data, math.Log(max(v/counts[k], math.SmallestNonzeroFloat64)))
		}
		d.Rows++
	}
	return klMatching{d}, ctx.Err()
}

// probabilities writes softmax(z) to p and returns the predicted class.
func probabilities(p []float64, z []float32) int {
	s := newSoftmax(z, 1)
	for k, v := range z {
		p[k] = s.of(v, 1)
	}
	return s.top
}

// Score implements ood.Scorer.
func (s klMatching) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	c := s.logs.Cols
	if err := checkWidth(b.Logits, c, "logits"); err != nil {
		return nil, err
	}
	n := b.Logits.Rows
	dst = scores(dst, n)
	block := min(n, lastBlock)
	p := blas64.General{Cols: c, Stride: c, Data: make([]float64, block*c)}
	cross := blas64.General{Cols: s.logs.Rows, Stride: s.logs.Rows, Data: make([]float64, block*s.logs.Rows)}
	for i := 0; i < n; i += lastBlock {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p.Rows = min(lastBlock, n-i)
		cross.Rows = p.Rows
		for r := range p.Rows {
			probabilities(p.Data[r*c:(r+1)*c], row(b.Logits, i+r))
		}
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, p, s.logs, 0, cross)
		for r := range p.Rows {
			// KL(p ‖ d) = Σ p log p − Σ p log d.
			most := math.Inf(-1)
			for _, v := range cross.Data[r*cross.Stride : (r+1)*cross.Stride] {
				most = max(most, v)
			}
			dst[i+r] = -entropy(row(b.Logits, i+r), 1) - most
		}
	}
	return dst, nil
}

// State implements heads.Stater.
func (s klMatching) State() heads.State {
	return heads.State{
		Params: map[string]any{"classes": float64(s.logs.Cols), "distributions": float64(s.logs.Rows)},
		Arrays: map[string]heads.Array{"log_distributions": matrixArray(s.logs)},
	}
}
