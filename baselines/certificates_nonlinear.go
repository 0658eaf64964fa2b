package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/heads/train"
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
	Memory: func(t ood.Training, p ood.Values) float64 {
		k := p.Count("k", t.Features.Cols)
		return smallNetwork(t, p.Float("hidden"), float64(k)) + 2*square(k)
	},
	Params: []ood.Param{
		ood.Choice("loss", "mse", "bce", "l1"), ood.Number("gradient_penalty", 1).AtLeast(0).Over(1, 10), ood.Number("diversity", 1).AtLeast(0).Over(1, 10),
		ood.Share("k", 0), ood.Count("hidden", 64).AtMost(mostUnits), ood.Count("epochs", 10), ood.Flag("unit_norm", true),
	},
	Fit: fitNonlinear,
	New: func() ood.Fitted { return &nonlinear{} },
}

type nonlinear struct{ heads.NonlinearCertificates }

func fitNonlinear(ctx context.Context, t ood.Training, _ ood.Values) (ood.Fitted, error) {
	fitted, err := ood.Jointly(t, func() ([]*heads.NonlinearCertificates, error) {
		options := make([]heads.NonlinearOptions, len(t.Grid))
		for i, p := range t.Grid {
			options[i] = heads.NonlinearOptions{
				K: p.Count("k", t.Features.Cols), Hidden: []int{p.Int("hidden")}, UnitNorm: p.Bool("unit_norm"), Loss: train.Loss(p.Text("loss")),
				GradientPenalty: p.Float("gradient_penalty"), Diversity: p.Float("diversity"), Epochs: p.Int("epochs"), Seed: t.Seed,
				Progress: func(done, total int) { t.TellAll(float64(done) / float64(total)) },
			}
		}
		return heads.FitNonlinearCertificatesGrid(ctx, t.Features, t.Trainer, options)
	})
	if err != nil {
		return nil, err
	}
	return &nonlinear{*fitted[t.At]}, nil
}

// Score implements ood.Fitted.
func (s *nonlinear) Score(_ context.Context, dst []float64, b ood.Batch) error {
	s.NonlinearCertificates.Score(dst, b.Features)
	return nil
}
