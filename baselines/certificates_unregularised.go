package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// CertificatesUnregularised are trained certificates that may all be alike.
var CertificatesUnregularised = ood.Method{
	Name: "certificates-unregularised",
	Doc: "certificates-trained with lambda=0: nothing but the random start and the number of steps keeps " +
		"the linear functions apart and away from 0.",
	Ref:     "Tagasovska & Lopez-Paz 2019, table 2",
	Needs:   ood.NeedFeatures | ood.NeedTrainer,
	Memory:  trained,
	Default: ood.Params{"loss": "task", "k": 0., "epochs": 10., "unit_norm": false, "centred": false},
	Grid:    unregularisedGrid(),
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitUnregularised(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitUnregularised,
	Restore: restoreCertificates,
}

func unregularisedGrid() []ood.Params {
	var grid []ood.Params
	for _, loss := range losses {
		grid = append(grid, ood.Params{"loss": string(loss)})
	}
	return grid
}

func fitUnregularised(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	return fitCertificatesGrid(ctx, t, grid, func(r *ood.ParamReader) heads.CertificatesOptions { return trainedOptions(t, r) })
}
