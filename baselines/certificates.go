package baselines

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas32"

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
	Ref:     "Tagasovska & Lopez-Paz 2019, section 3",
	Needs:   ood.NeedFeatures,
	Default: ood.Params{"k": 0., "lambda": 0., "unit_norm": true, "centred": false},
	Grid: []ood.Params{
		{"lambda": 0., "unit_norm": true},
		{"lambda": 1., "unit_norm": true},
		{"lambda": 10., "unit_norm": true},
		{"lambda": 0., "unit_norm": false},
		{"lambda": 0., "unit_norm": true, "centred": true},
	},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		return one(fitCertificates(ctx, t, []ood.Params{p}))
	},
	FitGrid: fitCertificates,
	Restore: restoreCertificates,
}

func fitCertificates(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	return fitCertificatesGrid(ctx, t, grid, func(r *ood.ParamReader) heads.CertificatesOptions {
		return heads.CertificatesOptions{
			Lambda:   r.NonNegative("lambda", 0),
			UnitNorm: r.Bool("unit_norm", true),
		}
	})
}

// fitCertificatesGrid reads the parameters that all certificates share, after
// those that the method reads for itself.
func fitCertificatesGrid(
	ctx context.Context, t ood.Training, grid []ood.Params, own func(*ood.ParamReader) heads.CertificatesOptions,
) ([]ood.Scorer, error) {
	options := make([]heads.CertificatesOptions, len(grid))
	for i, p := range grid {
		r := p.Reader()
		o := own(r)
		k, err := count(r.NonNegative("k", 0), t.Features.Cols)
		if err != nil {
			return nil, err
		}
		o.Centre = r.Bool("centred", false)
		o.Seed = t.Seed
		o.K = k
		if err := r.Err(); err != nil {
			return nil, err
		}
		options[i] = o
	}
	if t.Progress != nil {
		reportTraining(options, t.Progress)
	}
	fitted, err := heads.FitCertificatesGrid(ctx, t.Features, t.Trainer, options)
	if err != nil {
		return nil, err
	}
	return certificateScorers(fitted), nil
}

func certificateScorers[H certificateHead](fitted []H) []ood.Scorer {
	scorers := make([]ood.Scorer, len(fitted))
	for i, c := range fitted {
		scorers[i] = certificates{c}
	}
	return scorers
}

// count reads k directions of h: a number of them, or a share below 1, of which
// there is at least one.
func count(k float64, h int) (int, error) {
	if k > 0 && k < 1 {
		return max(1, int(k*float64(h))), nil
	}
	if k != math.Trunc(k) || k > math.MaxInt32 {
		return 0, fmt.Errorf("parameter %q must be a whole number or a share below 1, not %v", "k", k)
	}
	return int(k), nil
}

// reportTraining has the steps of configurations reported as a share of all.
// Those that differ in λ alone are trained together, group after group, and
// the first of a group reports.
func reportTraining(options []heads.CertificatesOptions, report func(share float64)) {
	type group struct {
		k, epochs        int
		unitNorm, centre bool
		loss             heads.Loss
	}
	groups := map[group]int{}
	for i, o := range options {
		g := group{o.K, o.Epochs, o.UnitNorm, o.Centre, o.Loss}
		if _, ok := groups[g]; !ok {
			groups[g] = len(groups)
		}
		before := groups[g]
		options[i].Progress = func(done, total int) {
			report((float64(before) + float64(done)/float64(total)) / float64(len(groups)))
		}
	}
}

func restoreCertificates(s heads.State) (ood.Scorer, error) {
	c, err := heads.RestoreCertificates(s)
	if err != nil {
		return nil, err
	}
	return certificates{c}, nil
}

type certificates struct {
	certificateHead
}

// certificateHead is heads.Certificates or heads.NonlinearCertificates.
type certificateHead interface {
	Width() int
	Score(dst []float64, phi blas32.General) []float64
	heads.Stater
}

// Rows that are scored between two looks at the context.
const certificatesBlock = 4096

// Score implements ood.Scorer.
func (s certificates) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkWidth(b.Features, s.Width(), "features"); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	for i := 0; i < len(dst); i += certificatesBlock {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		j := min(i+certificatesBlock, len(dst))
		s.certificateHead.Score(dst[i:j], ood.Batch{Features: b.Features}.Slice(i, j).Features)
	}
	return dst, nil
}
