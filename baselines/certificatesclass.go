package baselines

import (
	"context"
	"fmt"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// CertificatesClass are exact certificates of each predicted class's rows.
var CertificatesClass = ood.Method{
	Name: "certificates-class",
	Doc: "Orthonormal certificates of each class on its own: k orthonormal linear functions of the features that are as close to 0 as can be on " +
		"the training rows predicted to be of a class, solved exactly; the score is the mean square of those of the row's predicted class. A class predicted " +
		"for fewer training rows than say which functions to take (the number of features less k) has the certificates of all rows. k=0 takes half of the number of features, k below 1 is a share of it. unit_norm scales rows to norm 1.",
	Ref:   "Tagasovska & Lopez-Paz 2019, section 3, for each predicted class",
	Needs: ood.NeedFeatures | ood.NeedLogits,
	Memory: func(t ood.Training, p ood.Values) float64 {
		h := t.Features.Cols
		k := p.Count("k", h)
		if k == 0 {
			k = h / 2
		}
		// As many classes as can have rows enough.
		classes := min(float64(t.Logits.Cols), float64(t.Len())/float64(max(h-k, 2)))
		return eigenSquares*square(h) + classes*(square(h)+4*float64(h)*float64(k))
	},
	Params: []ood.Param{ood.Share("k", 0), ood.Flag("unit_norm", true)},
	Sweep: []ood.Params{
		{"k": .25, "unit_norm": true}, {"k": .5, "unit_norm": true}, {"k": .75, "unit_norm": true}, {"k": .9, "unit_norm": true},
		{"k": .5, "unit_norm": false},
	},
	Fit: fitClassCertificates,
	New: func() ood.Fitted { return &classCertificates{} },
}

// classCertificates are those of classes with rows enough, and of all rows for
// the others.
type classCertificates struct {
	All     certificates   `state:"all"`
	Own     []int          `state:"own[logits],least=-1"` // which of Classes a class has, or −1
	Classes []certificates `state:"classes"`
}

// Restored implements rows.Restored.
func (s *classCertificates) Restored() error {
	for y, k := range s.Own {
		if k >= len(s.Classes) {
			return fmt.Errorf("class %d has the certificates %d of %d", y, k, len(s.Classes))
		}
	}
	for i, c := range s.Classes {
		if c.Width() != s.All.Width() {
			return fmt.Errorf("certificates %d are of %d features, and those of all rows of %d", i, c.Width(), s.All.Width())
		}
	}
	return nil
}

func fitClassCertificates(ctx context.Context, t ood.Training, p ood.Values) (ood.Fitted, error) {
	o := heads.CertificatesOptions{UnitNorm: p.Bool("unit_norm"), K: max(1, p.Count("k", t.Features.Cols))}
	if p.Float("k") == 0 {
		o.K = max(1, t.Features.Cols/2)
	}
	of, moments := predicted(t.Batch), make([]heads.Moments, t.Logits.Cols)
	whole := heads.Moments{UnitNorm: o.UnitNorm}
	if err := whole.Add(t.Features); err != nil {
		return nil, err
	}
	all, err := heads.ExactCertificates(&whole, o)
	if err != nil {
		return nil, err
	}
	s := &classCertificates{All: certificates{*all}, Own: make([]int, len(of))}
	for y, picked := range of {
		s.Own[y] = -1
		// Fewer rows do not say which directions to take.
		if len(picked) < max(2, t.Features.Cols-o.K) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		moments[y].UnitNorm = o.UnitNorm
		if err := moments[y].Add(rows.Select(t.Features, picked)); err != nil {
			return nil, err
		}
		c, err := heads.ExactCertificates(&moments[y], o)
		if err != nil {
			return nil, fmt.Errorf("class %d: %w", y, err)
		}
		s.Own[y], s.Classes = len(s.Classes), append(s.Classes, certificates{*c})
		t.Tell(float64(y+1) / float64(len(moments)))
	}
	return s, nil
}

// predicted are the rows of each predicted class.
func predicted(b ood.Batch) [][]int {
	of := make([][]int, b.Logits.Cols)
	for i := range b.Logits.Rows {
		y := newSoftmax(row(b.Logits, i), 1).top
		of[y] = append(of[y], i)
	}
	return of
}

// Score implements ood.Fitted.
func (s *classCertificates) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	for y, picked := range predicted(b) {
		if len(picked) == 0 {
			continue
		}
		c := &s.All
		if k := s.Own[y]; k >= 0 {
			c = &s.Classes[k]
		}
		scores := make([]float64, len(picked))
		if err := c.Score(ctx, scores, ood.Batch{Features: rows.Select(b.Features, picked)}); err != nil {
			return err
		}
		for i, r := range picked {
			dst[r] = scores[i]
		}
	}
	return nil
}
