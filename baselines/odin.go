package baselines

import (
	"context"
	"fmt"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// ODIN moves an input towards the class predicted for it before it looks at the
// softmax: inputs of the domain follow further than others.
var ODIN = ood.Method{
	Name: "odin",
	Doc: "Minus the largest entry of softmax(logits / temperature) at the input x + ε·sign(∂/∂x log softmax(logits / temperature)), " +
		"the gradient being that of the predicted class: a small step that makes the network surer. " +
		"epsilon is in units of the raw input, pixels in [0,1]: where the preprocessing divides by a standard deviation, so is the step. " +
		"Inputs that come without preprocessing are taken as they are.",
	Ref:     "Liang, Li & Srikant 2018, equations 1 and 2, arXiv:1706.02690",
	Needs:   ood.NeedLogits | ood.NeedInputs | ood.NeedNetwork,
	Default: ood.Params{"temperature": 1000., "epsilon": .0014},
	Grid:    odinGrid(),
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitODIN(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitODIN,
	Restore: restoreODIN,
}

func odinGrid() []ood.Params {
	var grid []ood.Params
	for _, temperature := range []float64{100, 1000, 10000} {
		for _, epsilon := range []float64{.014, .0014, .00014} {
			grid = append(grid, ood.Params{"temperature": temperature, "epsilon": epsilon})
		}
	}
	return grid
}

// odinStep is what ODIN and its variant on features have in common.
type odinStep struct {
	temperature, epsilon float64
}

func readODIN(p ood.Params) (odinStep, error) {
	r := p.Reader()
	s := odinStep{temperature: r.Positive("temperature", 1000), epsilon: r.NonNegative("epsilon", .0014)}
	return s, r.Err()
}

func (s odinStep) params() map[string]any {
	return map[string]any{"temperature": s.temperature, "epsilon": s.epsilon}
}

func restoreStep(st heads.State) (odinStep, error) {
	var s odinStep
	var err error
	if s.temperature, err = positive(st, "temperature"); err != nil {
		return s, err
	}
	s.epsilon, err = nonNegative(st, "epsilon")
	return s, err
}

type odin struct {
	bound
	odinStep
	scale ood.InputScale
}

func fitODIN(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	n, err := newBound(ctx, t, "odin", ood.NeedNetwork)
	if err != nil {
		return nil, err
	}
	if err := t.InputScale.Check(); err != nil {
		return nil, err
	}
	scale := ood.InputScale{Factor: append([]float32(nil), t.InputScale.Factor...), Axis: t.InputScale.Axis}
	if len(scale.Factor) == 0 {
		scale.Factor = []float32{1}
	}
	scorers := make([]ood.Scorer, len(grid))
	for i, p := range grid {
		step, err := readODIN(p)
		if err != nil {
			return nil, err
		}
		scorers[i] = odin{n, step, scale}
	}
	return scorers, nil
}

// Bind implements ood.NetworkBound.
func (s odin) Bind(n ood.Network) ood.Scorer {
	s.network = n
	return s
}

// Score implements ood.Scorer.
func (s odin) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	return firstScores(scoreODIN(ctx, []odin{s}, dst, b))
}

// ScoreGrid implements ood.GridScorer. Scorers of one temperature share the
// gradient.
func (s odin) ScoreGrid(ctx context.Context, grid []ood.Scorer, b ood.Batch) ([][]float64, error) {
	all, err := together[odin](grid)
	if err != nil {
		return nil, err
	}
	return scoreODIN(ctx, all, nil, b)
}

func scoreODIN(ctx context.Context, grid []odin, dst []float64, b ood.Batch) ([][]float64, error) {
	all := room(len(grid), dst, b)
	byTemperature := map[float64][]int{}
	var temperatures []float64
	for i, s := range grid {
		if byTemperature[s.temperature] == nil {
			temperatures = append(temperatures, s.temperature)
		}
		byTemperature[s.temperature] = append(byTemperature[s.temperature], i)
	}
	var steps []float32
	err := grid[0].each(ctx, b, networkBlock, func(x ood.InputBlock) error {
		moved := ood.InputBlock{Start: x.Start, Shape: x.Shape, Data: make([]float32, len(x.Data))}
		if steps == nil {
			var err error
			if steps, err = grid[0].scale.Row(x.Shape[1:]); err != nil {
				return err
			}
		}
		for _, temperature := range temperatures {
			_, g, err := grid[0].gradient(ctx, x, ood.Scalar{Kind: ood.LogSoftmaxTop, Temperature: temperature})
			if err != nil {
				return err
			}
			for _, i := range byTemperature[temperature] {
				grid[i].move(moved.Data, x.Data, g, steps)
				z, err := grid[i].forward(ctx, moved)
				if err != nil {
					return err
				}
				for r := range z.Rows {
					all[i][x.Start+r] = minusLargest(row(z, r), temperature)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// move writes x + ε·step·sign(g) to dst; step is by the number's place in a row.
func (s odin) move(dst, x, g, step []float32) {
	for i, v := range x {
		dst[i] = v + float32(s.epsilon*float64(step[i%len(step)])*sign(g[i]))
	}
}

// sign is −1, 0 or 1, and NaN of NaN.
func sign(v float32) float64 {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	}
	return float64(v)
}

// State implements heads.Stater.
func (s odin) State() heads.State {
	factors := make([]float64, len(s.scale.Factor))
	for i, f := range s.scale.Factor {
		factors[i] = float64(f)
	}
	st := heads.State{Params: s.params(), Arrays: map[string]heads.Array{"scale": heads.Vector(factors)}}
	st.Params["scale_axis"] = float64(s.scale.Axis)
	return st
}

func restoreODIN(st heads.State) (ood.Scorer, error) {
	step, err := restoreStep(st)
	if err != nil {
		return nil, err
	}
	axis, err := whole(st, "scale_axis", 0)
	if err != nil {
		return nil, err
	}
	factors, err := st.Float64s("scale")
	if err != nil {
		return nil, err
	}
	if len(factors) == 0 {
		return nil, fmt.Errorf("array %q is empty", "scale")
	}
	scale := ood.InputScale{Axis: axis, Factor: make([]float32, len(factors))}
	for i, f := range factors {
		scale.Factor[i] = float32(f)
	}
	if err := scale.Check(); err != nil {
		return nil, err
	}
	return odin{bound{method: "odin", need: ood.NeedNetwork}, step, scale}, nil
}
