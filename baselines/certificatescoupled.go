package baselines

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// CertificatesCoupled sets certificates, each measured by how far from 0 it is
// in-domain, against the network's own logits.
var CertificatesCoupled = ood.Method{
	Name: "certificates-coupled",
	Doc: "α times the root mean square of certificates, less the energy log Σ exp(logits). The certificates are all orthonormal " +
		"directions of the features about their class's mean, each divided by its standard deviation in-domain, so that how many to keep need not be " +
		"chosen; the nearest class counts. unit_norm scales rows to norm 1 first. α is weight times the mean of the largest logit over the mean of the root mean " +
		"square, on the training rows, as in vim; weight=0 leaves the certificates alone. shrinkage mixes that share of a multiple " +
		"of the identity into the covariance. Classes are the labels where there are any, else the largest logit.",
	Ref: "Tagasovska & Lopez-Paz 2019, section 3, with squared errors weighed as in Lee et al. 2018, arXiv:1807.03888, rows as in " +
		"Mueller & Hein 2025, arXiv:2505.18032, and coupled as in Wang et al. 2022, arXiv:2203.10807, eq. 8",
	Needs:   ood.NeedFeatures | ood.NeedLogits,
	Memory:  squares(eigenSquares + 1),
	Default: ood.Params{"unit_norm": true, "shrinkage": coupledShrinkage, "weight": 1.},
	Grid: []ood.Params{
		{"unit_norm": true, "weight": 1.}, {"unit_norm": true, "weight": 2.}, {"unit_norm": true, "weight": 0.},
		{"unit_norm": false, "weight": 1.}, {"unit_norm": false, "weight": 2.}, {"unit_norm": false, "weight": 0.},
	},
	Fit:     fitCoupled,
	Restore: restoreCoupled,
}

// coupledShrinkage keeps directions that hardly vary in-domain from drowning
// all others.
const coupledShrinkage = .001

type coupled struct {
	mahalanobis
	outputs  int
	unitNorm bool
	weight   float64
	alpha    float64 // of the energy's own scale; 1 if weight is 0
}

func fitCoupled(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
	r := p.Reader()
	s := coupled{outputs: t.Logits.Cols, unitNorm: r.Bool("unit_norm", true), weight: r.NonNegative("weight", 1), alpha: 1}
	shrinkage := r.NonNegative("shrinkage", coupledShrinkage)
	if err := r.Err(); err != nil {
		return nil, err
	}
	if shrinkage > 1 {
		return nil, fmt.Errorf("parameter %q must be in [0,1], not %v", "shrinkage", shrinkage)
	}
	if err := checkBoth(t, "certificates-coupled"); err != nil {
		return nil, err
	}
	if s.unitNorm {
		unit := blas32.General{Rows: t.Features.Rows, Cols: t.Features.Cols, Stride: t.Features.Cols, Data: make([]float32, t.Features.Rows*t.Features.Cols)}
		unitRows(unit, t.Features)
		t.Features = unit
	}
	fitted, _, err := fitClassMeans(ctx, t, []float64{shrinkage}, "certificates-coupled")
	if err != nil {
		return nil, err
	}
	s.mahalanobis = fitted[0]
	if s.weight == 0 {
		return s, nil
	}
	var largest, certificates float64
	err = s.each(ctx, t.Features, func(i int, rms float64) {
		certificates += rms / float64(t.Features.Rows)
		largest += newSoftmax(row(t.Logits, i), 1).max / float64(t.Features.Rows)
	})
	if err != nil {
		return nil, err
	}
	if largest <= 0 {
		return nil, fmt.Errorf("the largest logit is %v on average, and must be positive to match certificates with it: are these log-probabilities? weight=0 does without", largest)
	}
	s.alpha = s.weight * largest / certificates
	return s, nil
}

// each calls back with the root mean square of each row's certificates. Rows
// are of unit norm already if they are to be.
func (s coupled) each(ctx context.Context, x blas32.General, found func(i int, rms float64)) error {
	return project(ctx, x, s.mean, s.projection, func(i int, y []float64) { found(i, math.Sqrt(s.nearest(y)/float64(len(y)))) })
}

// Score implements ood.Scorer.
func (s coupled) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkBothWidths(b, len(s.mean), s.outputs); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	for first := 0; first < len(dst); first += certificatesBlock {
		part := ood.Batch{Features: b.Features, Logits: b.Logits}.Slice(first, min(first+certificatesBlock, len(dst)))
		x := part.Features
		if s.unitNorm {
			x = blas32.General{Rows: x.Rows, Cols: x.Cols, Stride: x.Cols, Data: make([]float32, x.Rows*x.Cols)}
			unitRows(x, part.Features)
		}
		err := s.each(ctx, x, func(i int, rms float64) {
			dst[first+i] = s.alpha * rms
			if s.weight > 0 {
				z := newSoftmax(row(part.Logits, i), 1)
				dst[first+i] -= z.max + math.Log1p(z.excess)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// State implements heads.Stater.
func (s coupled) State() heads.State {
	st := s.mahalanobis.State()
	st.Params["outputs"], st.Params["unit_norm"] = float64(s.outputs), s.unitNorm
	st.Params["weight"], st.Params["alpha"] = s.weight, s.alpha
	return st
}

func restoreCoupled(st heads.State) (ood.Scorer, error) {
	var s coupled
	var err error
	if s.mahalanobis, err = restoreMahalanobis(st); err != nil {
		return nil, err
	}
	if s.outputs, err = whole(st, "outputs", leastLogits); err != nil {
		return nil, err
	}
	if s.unitNorm, err = st.Flag("unit_norm"); err != nil {
		return nil, err
	}
	if s.weight, err = nonNegative(st, "weight"); err != nil {
		return nil, err
	}
	s.alpha, err = positive(st, "alpha")
	return s, err
}
