package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// CertificatesTrained are orthonormal certificates fitted by gradient descent.
var CertificatesTrained = ood.Method{
	Name: "certificates-trained",
	Doc: "Orthonormal certificates trained by Adam to map the training rows to 0, under loss bce, mse, l1 or " +
		"pinball plus lambda·mean((CᵀC−I)²); the score is mean sigmoid(Cᵀφ)² for bce and mean (Cᵀφ)² else. " +
		"loss=task is bce for a classifier and mse for a regressor. " +
		"k, unit_norm and centred as in certificates.",
	Ref:     "Tagasovska & Lopez-Paz 2019, section 3",
	Needs:   ood.NeedFeatures | ood.NeedTrainer,
	Memory:  trained,
	Default: ood.Params{"loss": "task", "lambda": 10., "k": 0., "epochs": 10., "unit_norm": false, "centred": false},
	Grid:    lossGrid(1, 10),
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitTrained(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitTrained,
	Restore: restoreCertificates,
}

var losses = []heads.Loss{heads.BCE, heads.MSE, heads.L1, heads.Pinball}

func lossGrid(lambdas ...float64) []ood.Params {
	var grid []ood.Params
	for _, loss := range losses {
		for _, lambda := range lambdas {
			grid = append(grid, ood.Params{"loss": string(loss), "lambda": lambda})
		}
	}
	return grid
}

func fitTrained(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	return fitCertificatesGrid(ctx, t, grid, func(r *ood.ParamReader) heads.CertificatesOptions {
		o := trainedOptions(t, r)
		o.Lambda = r.NonNegative("lambda", 10)
		return o
	})
}

func trainedOptions(t ood.Training, r *ood.ParamReader) heads.CertificatesOptions {
	loss := heads.Loss(r.OneOf("loss", "task", "bce", "mse", "l1", "pinball"))
	if loss == "task" {
		loss = heads.BCE
		if t.Regression {
			loss = heads.MSE
		}
	}
	return heads.CertificatesOptions{
		Trained:  true,
		Loss:     loss,
		Epochs:   r.Count("epochs", 10),
		UnitNorm: r.Bool("unit_norm", false),
	}
}
