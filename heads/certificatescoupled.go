package heads

import (
	"context"
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/classes"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/numeric/gaussian"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

// certificatesCoupledMethod combines certificates with the logits of the model. Each
// certificate is divided by its in-distribution standard deviation.
var certificatesCoupledMethod = ood.Method{
	Name: "certificates-coupled",
	Doc: "Certificates coupled with the logits: a row scores high if its features are far from every class mean, or if its logits are small. Use it for a " +
		"classifier if only features and logits are known; it is the default there. The score is α times the root mean square of certificates, minus the " +
		"energy log Σ exp(logits). The certificates are all orthonormal directions of the features about their class mean, each divided by its in-distribution " +
		"standard deviation, so that their number need not be chosen; the nearest class counts. unit_norm scales rows to norm 1 first. α is weight times the " +
		"mean of the largest logit divided by the mean of the root mean square, on the training rows, as in vim; weight=0 uses the certificates alone. " +
		"shrinkage mixes that fraction of a multiple of the identity into the covariance. Classes are the labels if there are any, otherwise the largest " +
		"logit.",
	Ref: "an unpublished combination of published parts: Tagasovska & Lopez-Paz 2019, section 3, with squared errors weighed as in Lee et al. 2018, arXiv:1807.03888, rows as in " +
		"Mueller & Hein 2025, arXiv:2505.18032, and coupled as in Wang et al. 2022, arXiv:2203.10807, eq. 8",
	Needs:  ood.Needs{Features: true, Logits: true},
	Memory: func(t ood.Training, _ ood.Params) float64 { return (eigen.Squares + 1) * squareBytes(t.Features.Cols) },
	Params: []ood.Param{
		{Name: "unit_norm", Default: true, Sweep: []any{true, false}}, classes.Shrinkage(classes.LeastShrinkage),
		{Name: "weight", Default: 1, Takes: "least=0", Sweep: []any{1, 2, 0}},
	},
	Fit: fitCoupled,
	New: func() any { return &coupled{} },
}

// coupled is a fitted certificatesCoupledMethod.
type coupled struct {
	gaussian.Classes
	UnitNorm bool    `state:"unit_norm"`
	Weight   float64 `state:"weight,least=0"`
	Alpha    float64 `state:"alpha,positive"` // scales certificates to the energy; 1 if Weight is 0
}

func fitCoupled(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	s := &coupled{UnitNorm: p["unit_norm"].(bool), Weight: p.Float("weight"), Alpha: 1}
	var err error
	if s.Classes, err = s.cloud().Fit(ctx, t, p); err != nil || s.Weight == 0 {
		return s, err
	}
	rms := make([]float64, t.Len())
	if err := s.certificates(ctx, rms, t.Batch); err != nil {
		return nil, err
	}
	var largest, mean float64
	for i, v := range rms {
		mean += v / float64(t.Len())
		largest += softmax.New(rows.Row(t.Logits, i), 1).Max / float64(t.Len())
	}
	if largest <= 0 {
		return nil, fmt.Errorf("the mean of the largest logit is %v, and must be positive to scale the certificates: are the logits log-probabilities? weight=0 does not use them", largest)
	}
	s.Alpha = s.Weight * largest / mean
	return s, nil
}

// cloud selects the rows that the Gaussians are fitted to, and how they are scaled.
func (s *coupled) cloud() classes.Cloud {
	c := classes.Cloud{Layer: classes.Features}
	if s.UnitNorm {
		c.Exponent = 1
	}
	return c
}

// certificates writes the root mean square of each row's certificates to dst.
func (s *coupled) certificates(ctx context.Context, dst []float64, b ood.Batch) error {
	if err := s.Nearest(ctx, dst, s.cloud().Rows(b)); err != nil {
		return err
	}
	for i, squared := range dst {
		dst[i] = math.Sqrt(squared / float64(s.Projection.Cols))
	}
	return nil
}

func (s *coupled) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	if err := s.certificates(ctx, dst, b); err != nil {
		return err
	}
	for i := range dst {
		dst[i] *= s.Alpha
		if s.Weight > 0 {
			dst[i] -= softmax.New(rows.Row(b.Logits, i), 1).LogSum()
		}
	}
	return nil
}

func (s *coupled) ScoreGraph(b graph.Batch) (graph.Tensor, error) { return s.Sum(b).Graph(), nil }

// Sum implements gaussian.Summed.
func (s *coupled) Sum(b graph.Batch) gaussian.Sum {
	x := b.Features
	if s.UnitNorm {
		x = x.Normalised()
	}
	z := b.Logits.Double()
	sum := gaussian.Sum{
		Classes: []gaussian.Classes{s.Classes}, Rows: []graph.Tensor{x}, Others: []graph.Tensor{z},
		Weights: append([]float64{s.Alpha / math.Sqrt(float64(s.Projection.Cols))}, make([]float64, z.Cols())...),
	}
	if s.Weight > 0 {
		sum.Others, sum.Weights = append(sum.Others, z.LogSumExp()), append(sum.Weights, -1)
	}
	return sum
}

// PropagatesNaN implements graph.NaNPropagator.
func (s *coupled) PropagatesNaN() bool { return true }
