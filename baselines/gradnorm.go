package baselines

import (
	"context"
	"math"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// GradNorm scores with the length of a gradient with respect to the last
// layer's weights, negated.
var GradNorm = ood.Method{
	Name: "gradnorm",
	Doc: "Minus the sum of absolute values of the gradient of KL(uniform ‖ softmax(logits / temperature)) with respect to the last " +
		"layer's weights, in closed form: ‖φ‖₁ · ‖softmax(logits / temperature) − 1/c‖₁ / temperature. It is larger in-domain.",
	Ref:     "Huang, Geng & Li 2021, arXiv:2110.00218",
	Needs:   ood.NeedFeatures | ood.NeedLogits,
	Default: ood.Params{"temperature": 1.},
	Grid:    []ood.Params{{"temperature": 1.}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		r := p.Reader()
		s := gradNorm{t.Features.Cols, t.Logits.Cols, r.Positive("temperature", 1)}
		if err := r.Err(); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return s, checkBoth(t, "gradnorm")
	},
	Restore: func(st heads.State) (ood.Scorer, error) {
		var s gradNorm
		var err error
		if s.width, err = whole(st, "width", 1); err != nil {
			return nil, err
		}
		if s.classes, err = whole(st, "classes", leastLogits); err != nil {
			return nil, err
		}
		s.temperature, err = positive(st, "temperature")
		return s, err
	},
}

type gradNorm struct {
	width, classes int
	temperature    float64
}

// Score implements ood.Scorer.
func (s gradNorm) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkBothWidths(b, s.width, s.classes); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	for i := range dst {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var features, output float64
		for _, v := range row(b.Features, i) {
			features += math.Abs(float64(v))
		}
		z := row(b.Logits, i)
		p := newSoftmax(z, s.temperature)
		for _, v := range z {
			output += math.Abs(p.of(v, s.temperature) - 1/float64(s.classes))
		}
		dst[i] = -features * output / s.temperature
	}
	return dst, nil
}

// State implements heads.Stater.
func (s gradNorm) State() heads.State {
	return heads.State{Params: map[string]any{
		"width": float64(s.width), "classes": float64(s.classes), "temperature": s.temperature,
	}}
}
