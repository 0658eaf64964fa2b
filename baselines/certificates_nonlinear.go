package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// CertificatesNonlinear are certificates that are no linear functions.
var CertificatesNonlinear = ood.Method{
	Name: "certificates-nonlinear",
	Doc: "Non-linear certificates: k outputs of a network with one hidden layer, trained by Adam to map the training rows to 0, while a " +
		"gradient penalty keeps them Lipschitz, diversity keeps their variance and their independence on noise, and the score is their mean square. " +
		"gradient_penalty weighs mean((‖∇f‖−1)²) between training rows and noise, diversity mean((S−I)²) with S the second " +
		"moment of the outputs on isotropic noise, which is CᵀC for linear ones. The score is mean sigmoid(f)² for loss=bce. " +
		"k=0 is the number of features, 32 at most, k below 1 a share of them. Rows are centred and divided by one number, with unit_norm after scaling each to norm 1.",
	Ref:   "Tagasovska & Lopez-Paz 2019, section 3; Gulrajani et al. 2017",
	Needs: ood.NeedFeatures | ood.NeedTrainer,
	Memory: func(t ood.Training, p ood.Params) float64 {
		k, _ := count(p.Reader().NonNegative("k", 0), t.Features.Cols)
		return smallNetwork(t, units(p, "hidden", 64), float64(k)) + 2*square(k)
	},
	Default: ood.Params{
		"loss": "mse", "gradient_penalty": 1., "diversity": 1., "k": 0., "hidden": 64., "epochs": 10., "unit_norm": true,
	},
	Grid: []ood.Params{
		{"gradient_penalty": 1., "diversity": 1.},
		{"gradient_penalty": 1., "diversity": 10.},
		{"gradient_penalty": 10., "diversity": 1.},
		{"gradient_penalty": 10., "diversity": 10.},
	},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitNonlinear(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitNonlinear,
	Restore: func(s heads.State) (ood.Scorer, error) {
		c, err := heads.RestoreNonlinearCertificates(s)
		if err != nil {
			return nil, err
		}
		return certificates{c}, nil
	},
}

func fitNonlinear(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	options := make([]heads.NonlinearOptions, len(grid))
	for i, p := range grid {
		r := p.Reader()
		k, err := count(r.NonNegative("k", 0), t.Features.Cols)
		if err != nil {
			return nil, err
		}
		options[i] = heads.NonlinearOptions{
			K: k, Hidden: []int{r.Between("hidden", 64, 1, mostUnits)}, UnitNorm: r.Bool("unit_norm", true),
			Loss:            heads.Loss(r.OneOf("loss", "mse", "bce", "l1")),
			GradientPenalty: r.NonNegative("gradient_penalty", 1), Diversity: r.NonNegative("diversity", 1),
			Epochs: r.Count("epochs", 10), Seed: t.Seed,
		}
		if t.Progress != nil {
			options[i].Progress = func(done, total int) { t.Progress(float64(done) / float64(total)) }
		}
		if err := r.Err(); err != nil {
			return nil, err
		}
	}
	fitted, err := heads.FitNonlinearCertificatesGrid(ctx, t.Features, t.Trainer, options)
	if err != nil {
		return nil, err
	}
	return certificateScorers(fitted), nil
}
