package baselines

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/moments"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var cadrefMethod = ood.Method{
	Name: "cadref",
	Doc: "Relative error ‖φ − μ‖₁/‖φ‖₁ between the features and the mean of the training features with the same predicted class. Try it for a classifier if the " +
		"length of the features varies much, because the error is relative to it. It has two parts. The part of features that differ in the direction of the " +
		"class's weight is divided by the row's log Σ exp(logits), or by a thousandth of its average if that is larger. The part of the other features is " +
		"divided by that average. decoupled=false keeps the error in one part, which is CARef.",
	Ref:    "Ling et al. 2025, arXiv:2503.00325",
	Needs:  ood.Needs{Features: true, Logits: true, Weights: true},
	Params: []ood.Param{{Name: "decoupled", Default: true, Sweep: []any{true, false}}},
	Fit:    fitCADRef,
	New:    func() any { return &cadref{} },
}

type cadref struct {
	lastLayer
	Means     blas64.General `state:"means[logits,features]"`
	Decoupled bool           `state:"decoupled"`
	LogSum    float64        `state:"log_sum,positive"` // mean of log Σ exp(logits) of the training rows; 1 if Decoupled is false
}

func fitCADRef(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	s := &cadref{newLastLayer(ctx, t), moments.ClassMeans(t.Features, rows.Argmax(t.Logits), t.Logits.Cols, false), p["decoupled"].(bool), 1}
	if !s.Decoupled {
		return s, nil
	}
	s.LogSum = 0
	for i := range t.Len() {
		s.LogSum -= energy(row(t.Logits, i), 1) / float64(t.Len())
	}
	if s.LogSum <= 0 {
		return nil, fmt.Errorf("the mean of log Σ exp(logits) is %v, and must be positive to divide errors by: are the logits log-probabilities? decoupled=false does not use them", s.LogSum)
	}
	return s, nil
}

func (s *cadref) Score(_ context.Context, dst []float64, b ood.Batch) error {
	for i := range dst {
		z := softmax.New(row(b.Logits, i), 1)
		mean, w := dense.Row(s.Means, z.Top), row(s.Weight, z.Top)
		var along, against, numerator, absSum float64
		for j, v := range row(b.Features, i) {
			d := float64(v) - mean[j]
			absSum += math.Abs(float64(v))
			numerator += math.Abs(d)
			along += max(d*sign(w[j]), 0)
			against += max(-d*sign(w[j]), 0)
		}
		if s.Decoupled {
			numerator = along/max(z.LogSum(), s.LogSum/1000) + against/s.LogSum
		}
		dst[i] = numerator / max(absSum, math.SmallestNonzeroFloat32)
	}
	return nil
}

func (s *cadref) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	signs := rows.New(s.Weight.Rows, s.Weight.Cols)
	for k := range signs.Rows {
		for j, v := range row(s.Weight, k) {
			row(signs, k)[j] = float32(sign(v))
		}
	}
	x, class := b.Features.Double(), b.Logits.ArgMax()
	difference := x.Sub(class.Rows(s.Means))
	numerator := difference.Abs().Sum()
	if s.Decoupled {
		along := difference.Mul(class.Rows(signs))
		numerator = along.Max(0.).Sum().Div(b.Logits.Double().LogSumExp().Max(s.LogSum / 1000)).Add(along.Neg().Max(0.).Sum().Div(s.LogSum))
	}
	return numerator.Div(x.Abs().Sum().Max(math.SmallestNonzeroFloat32)), nil
}
