package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// Certificates are orthonormal certificates with squared loss, solved exactly.
var Certificates = ood.Method{
	Name: "certificates",
	Doc: "Orthonormal certificates: k orthonormal linear functions of the features that are as close to 0 as can " +
		"be on the training rows, solved exactly; the score is their mean square. k=0 takes three quarters of " +
		"the number of features, k below 1 is a share of it. lambda=0 is the hard constraint CᵀC=I, other " +
		"values weigh the penalty λ·mean((CᵀC−I)²). unit_norm scales rows to norm 1, centred subtracts the mean.",
	Ref:    "Tagasovska & Lopez-Paz 2019, section 3",
	Needs:  ood.NeedFeatures,
	Memory: squares(eigenSquares),
	Params: []ood.Param{
		ood.Share("k", 0), ood.Number("lambda", 0).AtLeast(0), ood.Flag("unit_norm", true), ood.Flag("centred", false),
	},
	Sweep: []ood.Params{
		{"lambda": 0., "unit_norm": true},
		{"lambda": 1., "unit_norm": true},
		{"lambda": 10., "unit_norm": true},
		{"lambda": 0., "unit_norm": false},
		{"lambda": 0., "unit_norm": true, "centred": true},
	},
	Fit: certificatesFit(func(_ ood.Training, p ood.Values) heads.CertificatesOptions {
		return heads.CertificatesOptions{Lambda: p.Float("lambda")}
	}),
	New: func() ood.Fitted { return &certificates{} },
}

// certificates are linear.
type certificates struct{ heads.Certificates }

// certificatesFit fits the whole grid at once, with the options that are a
// method's own and those that all certificates share.
func certificatesFit(own func(ood.Training, ood.Values) heads.CertificatesOptions) func(context.Context, ood.Training, ood.Values) (ood.Fitted, error) {
	return func(ctx context.Context, t ood.Training, _ ood.Values) (ood.Fitted, error) {
		fitted, err := ood.Jointly(t, func() ([]*heads.Certificates, error) {
			options := make([]heads.CertificatesOptions, len(t.Grid))
			for i, p := range t.Grid {
				o := own(t, p)
				o.K, o.UnitNorm, o.Centre, o.Seed = p.Count("k", t.Features.Cols), p.Bool("unit_norm"), p.Bool("centred"), t.Seed
				options[i] = o
			}
			return heads.FitCertificatesGrid(ctx, t.Features, t.Trainer, options, t.TellAll)
		})
		if err != nil {
			return nil, err
		}
		return &certificates{*fitted[t.At]}, nil
	}
}

// Linear are the certificates themselves.
func (s *certificates) Linear() *heads.Certificates { return &s.Certificates }

// Score implements ood.Fitted.
func (s *certificates) Score(_ context.Context, dst []float64, b ood.Batch) error {
	s.Certificates.Score(dst, b.Features)
	return nil
}
