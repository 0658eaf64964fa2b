package baselines

import (
	"context"
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// Geometrical scores with the functional margin over the norm of a gradient,
// negated: how far the input is from where the prediction changes.
var Geometrical = ood.Method{
	Name: "geometrical",
	Doc: "Minus the difference between the two largest entries of softmax(logits / temperature), or with logits=true of the " +
		"logits themselves, over the norm of a gradient with respect to the input. The default is the " +
		"difference of the softmax at temperature 1, as in the paper, over its own gradient (gradient=margin); with gradient=sum " +
		"the gradient is that of the sum of the logits, as the paper has it. The two parameters logits=true gradient=margin, which " +
		"the paper's grid lacks, give minus the exact distance to the decision boundary between the two classes of the network " +
		"made linear around the input; that of the softmax agrees with it near the boundary alone.",
	Ref:     "geometrical margin, Tagasovska & Lopez-Paz 2019, table 2; the distance: Elsayed et al. 2018, arXiv:1803.05598",
	Needs:   ood.NeedLogits | ood.NeedInputs | ood.NeedNetwork,
	Default: ood.Params{"temperature": 1., "gradient": gradientMargin},
	Grid: []ood.Params{
		{"temperature": 1., "gradient": gradientSum}, {"temperature": 2., "gradient": gradientSum},
		{"temperature": 10., "gradient": gradientSum}, {"logits": true, "gradient": gradientSum},
	},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitGeometrical(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitGeometrical,
	Restore: restoreGeometrical,
}

// Choices of the parameter "gradient".
const (
	gradientSum    = "sum"
	gradientMargin = "margin"
)

type geometrical struct {
	bound
	temperature float64 // of the softmax; 0 for the logits as they are
	gradientOf  string
}

func fitGeometrical(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	n, err := newBound(ctx, t, "geometrical", ood.NeedNetwork)
	if err != nil {
		return nil, err
	}
	scorers := make([]ood.Scorer, len(grid))
	for i, p := range grid {
		r := p.Reader()
		s := geometrical{n, r.Positive("temperature", 1), r.OneOf("gradient", gradientMargin, gradientSum)}
		if r.Bool("logits", false) {
			s.temperature = 0
		}
		if err := r.Err(); err != nil {
			return nil, err
		}
		scorers[i] = s
	}
	return scorers, nil
}

// scalar is what is differentiated.
func (s geometrical) scalar() ood.Scalar {
	if s.gradientOf == gradientSum {
		return ood.Scalar{Kind: ood.Sum}
	}
	return ood.Scalar{Kind: ood.TopTwo, Softmax: s.temperature > 0, Temperature: s.temperature}
}

// Bind implements ood.NetworkBound.
func (s geometrical) Bind(n ood.Network) ood.Scorer {
	s.network = n
	return s
}

// Score implements ood.Scorer.
func (s geometrical) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	return firstScores(scoreGeometrical(ctx, []geometrical{s}, dst, b))
}

// ScoreGrid implements ood.GridScorer. Scorers that differentiate the same
// share the gradient.
func (s geometrical) ScoreGrid(ctx context.Context, grid []ood.Scorer, b ood.Batch) ([][]float64, error) {
	all, err := together[geometrical](grid)
	if err != nil {
		return nil, err
	}
	return scoreGeometrical(ctx, all, nil, b)
}

func scoreGeometrical(ctx context.Context, grid []geometrical, dst []float64, b ood.Batch) ([][]float64, error) {
	all := room(len(grid), dst, b)
	byScalar := map[ood.Scalar][]int{}
	var scalars []ood.Scalar
	for i, s := range grid {
		of := s.scalar()
		if byScalar[of] == nil {
			scalars = append(scalars, of)
		}
		byScalar[of] = append(byScalar[of], i)
	}
	err := grid[0].each(ctx, b, networkBlock, func(x ood.InputBlock) error {
		for _, of := range scalars {
			z, g, err := grid[0].gradient(ctx, x, of)
			if err != nil {
				return err
			}
			width := len(g) / max(z.Rows, 1)
			for r := range z.Rows {
				length := norm(g[r*width : (r+1)*width])
				for _, i := range byScalar[of] {
					all[i][x.Start+r] = minusMargin(row(z, r), grid[i].temperature) / length
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

// norm is the Euclidean length of v. Where all of v is 0, to float32, it is the
// smallest number above, so that a margin over it is large and not infinite.
func norm(v []float32) float64 {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return max(math.Sqrt(sum), math.SmallestNonzeroFloat32)
}

// State implements heads.Stater.
func (s geometrical) State() heads.State {
	return heads.State{Params: map[string]any{"temperature": s.temperature, "gradient": s.gradientOf}}
}

func restoreGeometrical(st heads.State) (ood.Scorer, error) {
	temperature, err := st.Number("temperature")
	if err != nil {
		return nil, err
	}
	if !(temperature >= 0) || math.IsInf(temperature, 0) {
		return nil, fmt.Errorf("parameter %q must be zero or positive, not %v", "temperature", temperature)
	}
	of, err := st.Text("gradient")
	if err != nil {
		return nil, err
	}
	if of != gradientSum && of != gradientMargin {
		return nil, fmt.Errorf("parameter %q must be %s or %s, not %q", "gradient", gradientSum, gradientMargin, of)
	}
	return geometrical{bound{method: "geometrical", need: ood.NeedNetwork}, temperature, of}, nil
}
