package baselines

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var klMatchingMethod = ood.Method{
	Name: "kl-matching",
	Doc: "Smallest Kullback–Leibler divergence between a row's softmax and the typical softmax of a class. Try it if only logits are known, and if the model " +
		"confuses certain classes even on in-distribution rows. It is KL(softmax(logits) ‖ d), in nats, where d is the mean of softmax(logits) over the " +
		"training rows of a predicted class. No labels are needed. Classes that are never predicted have no d.",
	Ref:   "Hendrycks et al. 2022, arXiv:1911.11132",
	Needs: ood.Needs{Logits: true},
	Fit:   fitKLMatching,
	New:   func() any { return &klMatching{} },
}

type klMatching struct {
	Logs blas64.General `state:"log_distributions[k,logits]"` // logarithms of the typical softmax of k classes
}

func fitKLMatching(_ context.Context, t ood.Training, _ ood.Params) (any, error) {
	c := t.Logits.Cols
	sums := dense.New(c, c)
	counts := make([]float64, c)
	p := make([]float64, c)
	for i := range t.Logits.Rows {
		top := probabilities(p, row(t.Logits, i))
		blas64.Axpy(1, dense.Vector(p), dense.Vector(sums.Data[top*c:(top+1)*c]))
		counts[top]++
	}
	d := blas64.General{Cols: c, Stride: c}
	for k, n := range counts {
		if n == 0 {
			continue
		}
		for _, v := range sums.Data[k*c : (k+1)*c] {
			// Probabilities of 0 are replaced by the smallest positive value, so that
			// divergences stay finite.
			d.Data = append(d.Data, math.Log(max(v/n, math.SmallestNonzeroFloat64)))
		}
		d.Rows++
	}
	return &klMatching{d}, nil
}

// probabilities writes softmax(z) to p and returns the predicted class.
func probabilities(p []float64, z []float32) int {
	s := softmax.New(z, 1)
	for k, v := range z {
		p[k] = s.Of(v, 1)
	}
	return s.Top
}

func (s *klMatching) Score(_ context.Context, dst []float64, b ood.Batch) error {
	c, k := b.Logits.Cols, s.Logs.Rows
	p, cross := dense.New(len(dst), c), dense.New(len(dst), k)
	for i := range dst {
		probabilities(p.Data[i*c:(i+1)*c], row(b.Logits, i))
	}
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, p, s.Logs, 0, cross)
	for i := range dst {
		// KL(p ‖ d) = Σ p log p − Σ p log d.
		dst[i] = -entropy(row(b.Logits, i), 1) - slices.Max(cross.Data[i*k:(i+1)*k])
	}
	return nil
}

func (s *klMatching) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	z := b.Logits.Double()
	cross := z.Softmax().MatMulT(s.Logs, s.Logs.Rows)
	return entropyGraph(z, 1).Add(cross.RowMax()).Neg(), nil
}
