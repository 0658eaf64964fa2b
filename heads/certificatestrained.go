package heads

import (
	"context"
	"slices"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/moments"
	"github.com/attach-uncertainty/attach/ood"
)

var certificatesTrainedMethod = ood.Method{
	Name: "certificates-trained",
	Doc: "Orthonormal certificates that are trained by Adam, as in the paper, in place of the exact solution. Use it to reproduce the paper or to try another " +
		"loss; for the squared loss, certificates has the exact solution. The loss is bce, mse, l1 or pinball plus lambda·mean((CᵀC−I)²), in batches of " +
		"`batch` rows. The score is mean sigmoid(Cᵀφ)² for bce and mean (Cᵀφ)² for the others. loss=task is bce for a classifier and mse for a regressor. k, " +
		"unit_norm and centred are as in certificates.",
	Ref:    "Tagasovska & Lopez-Paz 2019, section 3",
	Needs:  ood.Needs{Features: true, Trainer: true},
	Memory: trainedMemory,
	Params: append(trainedParams(), ood.Param{Name: "lambda", Default: 10, Takes: "least=0", Sweep: []any{1, 10}}),
	Fit:    fitTrained,
	New:    func() any { return &certificates{} },
}

var certificatesUnregularisedMethod = ood.Method{
	Name: "certificates-unregularised",
	Doc: "certificates-trained with lambda=0, a control: only the random start and the number of steps keep the linear functions apart and away from 0. Use it " +
		"only to see what the penalty of certificates-trained contributes.",
	Ref:    "Tagasovska & Lopez-Paz 2019, table 2",
	Needs:  ood.Needs{Features: true, Trainer: true},
	Memory: trainedMemory,
	Params: trainedParams(),
	Fit:    fitTrained,
	New:    func() any { return &certificates{} },
}

// trainedParams returns the parameters that both methods of trained linear certificates
// have.
func trainedParams() []ood.Param {
	return []ood.Param{
		{Name: "loss", Default: "task", Takes: "of=task|bce|mse|l1|pinball", Sweep: []any{"bce", "mse", "l1", "pinball"}},
		{Name: "k", Default: 0, Takes: "share"}, {Name: "epochs", Default: 10, Takes: "count"}, {Name: "batch", Default: 64, Takes: "count"},
		{Name: "unit_norm", Default: false}, {Name: "centred", Default: false},
	}
}

// trainedMemory estimates the memory in bytes for training certificates, including the
// matrix CᵀC.
func trainedMemory(t ood.Training, p ood.Params) float64 {
	h := t.Features.Cols
	k := certificatesOf(p, h)
	return mlp.Bytes*float64(h)*float64(k) + 2*squareBytes(k)
}

// fitTrained fits linear certificates by Adam. It trains all configurations that differ
// only in λ together.
func fitTrained(ctx context.Context, t ood.Training, _ ood.Params) (any, error) {
	type shape struct {
		k, epochs, batch int
		unit, centred    bool
		loss             train.Loss
	}
	h := t.Features.Cols
	shapeOf := func(p ood.Params) shape {
		s := shape{certificatesOf(p, h), p.Int("epochs"), p.Int("batch"), p["unit_norm"].(bool), p["centred"].(bool), train.Loss(p["loss"].(string))}
		switch {
		case s.loss == "task" && t.Regression:
			s.loss = "mse"
		case s.loss == "task":
			s.loss = "bce"
		}
		return s
	}
	return memo.OncePerKey(ctx, t, shapeOf, func(same []ood.Params, report func(float64)) ([]*certificates, error) {
		s := shapeOf(same[0])
		if err := checkCertificates(t.Len(), h, s.k, s.centred); err != nil {
			return nil, err
		}
		template := certificates{UnitNorm: s.unit, Loss: s.loss}
		if s.centred {
			template.Mean = dense.Single(moments.Mean(t.Features, s.unit))
		}
		problem := train.Problem{
			X: t.Features, Outputs: s.k, NoBias: true, Loss: s.loss, Epochs: s.epochs, BatchSize: s.batch,
			Progress: report,
		}
		if s.unit || s.centred {
			problem.X = prepareRows(t.Features, s.unit, template.Mean)
		}
		if s.loss == "pinball" {
			// If each row had a new random level, as in quantile regression, the mean loss
			// would be |Cᵀφ|/2 for either sign. The fixed level 0.5 gives the same loss
			// without noise.
			problem.Levels = slices.Repeat([]float64{.5}, s.k)
		}
		for _, p := range same {
			m := train.ModelConfig{Seed: t.Seed, LearningRate: 1e-3, Target: -1}
			m.Orthonormal, _ = p["lambda"].(float64)
			problem.Models = append(problem.Models, m)
		}
		trained, err := t.Trainer.Train(ctx, problem)
		if err != nil {
			return nil, err
		}
		fitted := make([]*certificates, len(same))
		for i, n := range trained {
			c := template
			c.C = n.Layers[0].W
			fitted[i] = &c
		}
		return fitted, nil
	})
}
