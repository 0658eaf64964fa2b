package baselines

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var odinMethod = ood.Method{
	Name: "odin",
	Doc: "Minus the largest probability at a high temperature, after a small step of the input that makes the network more confident. Use it if the network can " +
		"be differentiated, and if you can afford a gradient and a second pass for each row. The step is ε·sign(∂/∂x log softmax(logits / temperature)) for " +
		"the predicted class, and the score is minus the largest entry of softmax(logits / temperature). epsilon is in units of the raw input, pixels in " +
		"[0,1]. If the preprocessing divides by a standard deviation, so is the step. Inputs without preprocessing are used unchanged.",
	Ref:    "Liang, Li & Srikant 2018, equations 1 and 2, arXiv:1706.02690",
	Needs:  ood.Needs{Logits: true, Inputs: true, Network: true},
	Params: odinParams(),
	Fit: func(_ context.Context, t ood.Training, p ood.Params) (any, error) {
		s := &odin{odinStep: odinStep{p.Float("temperature"), p.Float("epsilon")}, Axis: t.InputScale.Axis, Scale: t.InputScale.Factor}
		if len(s.Scale) == 0 {
			s.Scale = []float32{1}
		}
		return s, s.check()
	},
	New: func() any { return &odin{} },
}

// odinParams returns the parameters that odin and odin-features have in common.
func odinParams() []ood.Param {
	return []ood.Param{
		{Name: "temperature", Default: 1000, Takes: "positive", Sweep: []any{100, 1000, 10000}},
		{Name: "epsilon", Default: .0014, Takes: "least=0", Sweep: []any{.014, .0014, .00014}},
	}
}

// odinStep holds the parameters that odin and odin-features have in common.
type odinStep struct {
	Temperature float64 `state:"temperature,positive"`
	Epsilon     float64 `state:"epsilon,least=0"`
}

type odin struct {
	odinStep
	Axis  int       `state:"scale_axis,least=0"`
	Scale []float32 `state:"scale[s],positive"`
}

// Score implements ood.Detector. Scorers with the same temperature share the gradient.
func (s *odin) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	x := b.Inputs.(ood.InputBlock)
	_, g, err := gradientOf(ctx, b, ood.Scalar{Temperature: s.Temperature})
	if err != nil {
		return err
	}
	steps, err := s.steps(g.Shape[1:])
	if err != nil {
		return err
	}
	moved := g
	moved.Data = make([]float32, len(g.Data))
	s.perturb(moved.Data, x.Find(g.Name).Data, g.Data, steps)
	out, err := b.Network.Forward(ctx, replaced(x, moved))
	if err := cmp.Or(err, checkLogits(out.Logits, x.Len())); err != nil {
		return err
	}
	for i := range dst {
		dst[i] = minusLargest(row(out.Logits, i), s.Temperature)
	}
	return nil
}

func (s *odin) ScoreGraph(graph.Batch) (graph.Tensor, error) {
	return graph.Tensor{}, graph.Refuse("it runs the network with its gradient: odin-features has a graph")
}

// check returns an error unless all scales are positive and the axis is valid.
func (s *odin) check() error {
	for _, f := range s.Scale {
		if !(f > 0) || math.IsInf(float64(f), 0) {
			return fmt.Errorf("input scale %v must be positive", f)
		}
	}
	if s.Axis < 0 {
		return errors.New("the axis of the input scale is negative")
	}
	return nil
}

// steps returns the scales of the step for the numbers of a row with the given shape. The
// result has one scale for all numbers, or one for each number. If there are several
// scales, there must be one for each index along the axis.
func (s *odin) steps(shape []int) ([]float32, error) {
	if len(s.Scale) < 2 {
		return s.Scale, nil
	}
	if s.Axis >= len(shape) || shape[s.Axis] != len(s.Scale) {
		return nil, fmt.Errorf("%d input scales along axis %d of rows of shape %v", len(s.Scale), s.Axis, shape)
	}
	width, inner := 1, 1
	for axis, d := range shape {
		width *= d
		if axis > s.Axis {
			inner *= d
		}
	}
	factors := make([]float32, width)
	for i := range factors {
		factors[i] = s.Scale[i/inner%len(s.Scale)]
	}
	return factors, nil
}

// perturb writes x + ε·step·sign(g) to dst, for any number of rows. The steps of a row are
// repeated for every row.
func (s *odin) perturb(dst, x, g, step []float32) {
	for i, v := range x {
		dst[i] = v + float32(s.Epsilon*float64(step[i%len(step)])*sign(g[i]))
	}
}
