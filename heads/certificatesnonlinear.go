package heads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/moments"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

// certificatesNonlinearMethod trains certificates that are a small network. The paper
// requires a gradient penalty, and outputs that vary around zero. Here, their variance is
// measured on isotropic noise. For linear certificates, this variance penalty equals the
// paper's penalty for CᵀC = I.
var certificatesNonlinearMethod = ood.Method{
	Name: "certificates-nonlinear",
	Doc: "Non-linear certificates: the mean square of k outputs of a small network that is trained to map the training rows to 0. Try it if training rows lie " +
		"near a curved surface, which linear certificates miss; the fit takes longer. The network has one hidden layer and is trained by Adam. A gradient " +
		"penalty keeps the outputs Lipschitz, and a diversity penalty keeps their variance and their independence on noise. gradient_penalty weighs " +
		"mean((‖∇f‖−1)²) between training rows and noise. diversity weighs mean((S−I)²), where S is the second moment of the outputs on isotropic noise, which " +
		"is CᵀC for linear certificates. For loss=bce the score is mean sigmoid(f)². k=0 is the number of features but at most 32, and k below 1 is a fraction " +
		"of it. unit_norm scales rows to norm 1; rows are then centred and divided by one number.",
	Ref:   "Tagasovska & Lopez-Paz 2019, section 3; Gulrajani et al. 2017",
	Needs: ood.Needs{Features: true, Trainer: true},
	Memory: func(t ood.Training, p ood.Params) float64 {
		h, k := t.Features.Cols, p.Count("k", t.Features.Cols)
		return mlp.Bytes*p.Float("hidden")*float64(h+k) + 2*squareBytes(k)
	},
	Params: []ood.Param{
		{Name: "loss", Default: "mse", Takes: "of=mse|bce|l1"}, {Name: "gradient_penalty", Default: 1, Takes: "least=0", Sweep: []any{1, 10}},
		{Name: "diversity", Default: 1, Takes: "least=0", Sweep: []any{1, 10}},
		{Name: "k", Default: 0, Takes: "share"}, {Name: "hidden", Default: 64, Takes: "count,most=65536"},
		{Name: "epochs", Default: 10, Takes: "count"}, {Name: "unit_norm", Default: true},
	},
	Fit: fitNonlinear,
	New: func() any { return &nonlinear{} },
}

// nonlinear holds a network with outputs close to 0 on in-distribution rows. The gradients
// of the outputs have norms close to 1. On noise of the size of the rows, outputs vary
// independently of each other.
type nonlinear struct {
	Network  train.Network `state:"network"`
	UnitNorm bool          `state:"unit_norm"`          // scale rows to Euclidean norm 1
	Mean     []float32     `state:"mean[features]"`     // subtracted from the scaled rows
	Scale    float64       `state:"scale,positive"`     // divisor of the centred rows, so that features have mean variance 1
	Loss     train.Loss    `state:"loss,of=mse|bce|l1"` // training loss, which selects the score
}

// fitNonlinear fits certificates-nonlinear. It trains all configurations that differ only
// in penalties together.
func fitNonlinear(ctx context.Context, t ood.Training, _ ood.Params) (any, error) {
	type shape struct {
		k, hidden, epochs int
		unit              bool
		loss              train.Loss
	}
	h := t.Features.Cols
	shapeOf := func(p ood.Params) shape {
		return shape{cmp.Or(p.Count("k", h), min(h, 32)), p.Int("hidden"), p.Int("epochs"), p["unit_norm"].(bool), train.Loss(p["loss"].(string))}
	}
	return memo.OncePerKey(ctx, t, shapeOf, func(same []ood.Params, report func(float64)) ([]*nonlinear, error) {
		if t.Len() < 2 {
			return nil, &rows.TooFewRowsError{What: "non-linear certificates", Have: t.Len(), Need: 2}
		}
		s := shapeOf(same[0])
		template := nonlinear{UnitNorm: s.unit, Loss: s.loss}
		if err := template.standardise(t.Features); err != nil {
			return nil, err
		}
		problem := train.Problem{
			X: template.prepare(t.Features), Hidden: []int{s.hidden}, Outputs: s.k, Loss: s.loss, Epochs: s.epochs, BatchSize: 64,
			Progress: report,
		}
		for _, p := range same {
			problem.Models = append(problem.Models, train.ModelConfig{
				Seed: t.Seed, LearningRate: 1e-3, Target: -1, GradientPenalty: p.Float("gradient_penalty"), Diversity: p.Float("diversity"),
			})
		}
		trained, err := t.Trainer.Train(ctx, problem)
		if err != nil {
			return nil, err
		}
		fitted := make([]*nonlinear, len(same))
		for i, n := range trained {
			c := template
			c.Network = n
			fitted[i] = &c
		}
		return fitted, nil
	})
}

// standardise sets Mean and Scale from the rows of phi.
func (c *nonlinear) standardise(phi blas32.General) error {
	var squares, variance float64
	mean := moments.Mean(phi, c.UnitNorm)
	c.Mean = dense.Single(mean)
	for _, v := range mean {
		squares += v * v
	}
	for i := range phi.Rows {
		row, scale := rows.Row(phi, i), 1.0
		if c.UnitNorm {
			scale = rows.InverseNorm(row)
		}
		for j, v := range row {
			d := scale*float64(v) - mean[j]
			variance += d * d / float64(phi.Rows)
		}
	}
	c.Scale = float64(float32(math.Sqrt(variance / float64(phi.Cols))))
	// Because of rounding, even equal rows can have a small variance.
	if !(c.Scale > 0) || variance <= 1e-13*squares {
		return errors.New("all rows are equal, so that certificates cannot learn from them")
	}
	return nil
}

// prepare returns the rows that the network is applied to.
func (c *nonlinear) prepare(phi blas32.General) blas32.General {
	x := prepareRows(phi, c.UnitNorm, c.Mean)
	for i := range x.Data {
		x.Data[i] /= float32(c.Scale)
	}
	return x
}

func (c *nonlinear) Restored() error {
	if in, _ := c.Network.Widths(); in != len(c.Mean) {
		return fmt.Errorf("the network has %d inputs, but there are %d features", in, len(c.Mean))
	}
	return nil
}

// Score implements ood.Detector. It computes the score from the outputs of the network as
// for linear certificates.
func (c *nonlinear) Score(_ context.Context, dst []float64, b ood.Batch) error {
	f := c.Network.Apply(c.prepare(b.Features))
	for i := range dst {
		dst[i] = meanSquare(rows.Row(f, i), 1, c.Loss)
	}
	return nil
}

func (c *nonlinear) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	x := prepareRowsGraph(b.Features, c.UnitNorm, c.Mean).Div(c.Scale)
	return meanSquareGraph(mlp.Graph(c.Network.Layers, x), c.Loss), nil
}
