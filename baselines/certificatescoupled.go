package baselines

import (
	"context"
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/gaussian"
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
	gaussian.Classes
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
	fitted, err := s.cloud().fit(ctx, t, []float64{shrinkage})
	if err != nil {
		return nil, err
	}
	s.Classes = fitted[0]
	if s.weight == 0 {
		return s, nil
	}
	rms, err := s.certificates(ctx, t.Batch)
	if err != nil {
		return nil, err
	}
	var largest, certificates float64
	for i, v := range rms {
		certificates += v / float64(t.Features.Rows)
		largest += newSoftmax(row(t.Logits, i), 1).max / float64(t.Features.Rows)
	}
	if largest <= 0 {
		return nil, fmt.Errorf("the largest logit is %v on average, and must be positive to match certificates with it: are these log-probabilities? weight=0 does without", largest)
	}
	s.alpha = s.weight * largest / certificates
	return s, nil
}

func (s coupled) cloud() cloud { return cloud{layer: lastLayerFeatures, unit: s.unitNorm} }

// certificates are the root mean squares of each row's.
func (s coupled) certificates(ctx context.Context, b ood.Batch) ([]float64, error) {
	rms := make([]float64, b.Features.Rows)
	if err := s.Nearest(ctx, rms, s.cloud().rows(b)); err != nil {
		return nil, err
	}
	for i, squared := range rms {
		rms[i] = math.Sqrt(squared / float64(s.Projection.Cols))
	}
	return rms, nil
}

// Score implements ood.Scorer.
func (s coupled) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkBothWidths(b, len(s.Mean), s.outputs); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	for first := 0; first < len(dst); first += certificatesBlock {
		part := ood.Batch{Features: b.Features, Logits: b.Logits}.Slice(first, min(first+certificatesBlock, len(dst)))
		rms, err := s.certificates(ctx, part)
		if err != nil {
			return nil, err
		}
		for i, v := range rms {
			dst[first+i] = s.alpha * v
			if s.weight > 0 {
				z := newSoftmax(row(part.Logits, i), 1)
				dst[first+i] -= z.max + math.Log1p(z.excess)
			}
		}
	}
	return dst, nil
}

// State implements heads.Stater.
func (s coupled) State() heads.State {
	st := mahalanobis{s.Classes}.State()
	st.Params["outputs"], st.Params["unit_norm"] = float64(s.outputs), s.unitNorm
	st.Params["weight"], st.Params["alpha"] = s.weight, s.alpha
	return st
}

func restoreCoupled(st heads.State) (ood.Scorer, error) {
	var s coupled
	var err error
	if s.Classes, err = restoreClasses(st); err != nil {
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
