package baselines

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// CertificatesClass are exact certificates of each predicted class's rows.
var CertificatesClass = ood.Method{
	Name: "certificates-class",
	Doc: "Orthonormal certificates of each class on its own: k orthonormal linear functions of the features that are as close to 0 as can be on " +
		"the training rows predicted to be of a class, solved exactly; the score is the mean square of those of the row's predicted class. A class predicted " +
		"for fewer than two training rows has the certificates of all rows. k=0 takes half of the number of features, k below 1 is a share of it. unit_norm scales rows to norm 1.",
	Ref:   "Tagasovska & Lopez-Paz 2019, section 3, for each predicted class",
	Needs: ood.NeedFeatures | ood.NeedLogits,
	Memory: func(t ood.Training, p ood.Params) float64 {
		k, _ := count(p.Reader().NonNegative("k", 0), t.Features.Cols)
		if k == 0 {
			k = t.Features.Cols / 2
		}
		classes := float64(t.Logits.Cols)
		return (eigenSquares+min(classes, float64(t.Len())))*square(t.Features.Cols) + 4*classes*float64(t.Features.Cols)*float64(k)
	},
	Default: ood.Params{"k": 0., "unit_norm": true},
	Grid: []ood.Params{
		{"k": .25, "unit_norm": true}, {"k": .5, "unit_norm": true}, {"k": .75, "unit_norm": true}, {"k": .9, "unit_norm": true},
		{"k": .5, "unit_norm": false},
	},
	Fit: fitClassCertificates,
	Restore: func(st heads.State) (ood.Scorer, error) {
		classes, err := whole(st, "classes", leastLogits)
		if err != nil {
			return nil, err
		}
		width, err := whole(st, "width", 1)
		if err != nil {
			return nil, err
		}
		all, err := st.General("certificates")
		if err != nil {
			return nil, err
		}
		if all.Rows != classes*width {
			return nil, fmt.Errorf("array %q has %d rows, not %d features for each of %d classes", "certificates", all.Rows, width, classes)
		}
		unitNorm, err := st.Flag("unit_norm")
		if err != nil {
			return nil, err
		}
		return newClassCertificates(all, classes, unitNorm), heads.CheckFinite("certificates", all)
	},
}

// classCertificates are those of all classes below each other.
type classCertificates struct {
	all     blas32.General        // (c·h)×k
	classes []*heads.Certificates // views of all
}

func newClassCertificates(all blas32.General, classes int, unitNorm bool) classCertificates {
	s := classCertificates{all: all}
	h := all.Rows / classes
	for y := range classes {
		s.classes = append(s.classes, &heads.Certificates{
			C:        blas32.General{Rows: h, Cols: all.Cols, Stride: all.Stride, Data: all.Data[y*h*all.Stride : (y+1)*h*all.Stride]},
			UnitNorm: unitNorm, Loss: heads.MSE, Exact: true,
		})
	}
	return s
}

func fitClassCertificates(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
	r := p.Reader()
	share := r.NonNegative("k", 0)
	unitNorm := r.Bool("unit_norm", true)
	if err := r.Err(); err != nil {
		return nil, err
	}
	if err := checkBoth(t, "certificates-class"); err != nil {
		return nil, err
	}
	h := t.Features.Cols
	if share == 0 {
		share = .5
	}
	k, err := count(share, h)
	if err != nil {
		return nil, err
	}
	moments := make([]heads.Moments, t.Logits.Cols)
	whole := heads.Moments{UnitNorm: unitNorm}
	for y, rows := range predicted(t.Batch) {
		m := &moments[y]
		m.UnitNorm = unitNorm
		for len(rows) > 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			n := min(len(rows), certificatesBlock)
			if err := m.Add(pickRows(t.Features, rows[:n])); err != nil {
				return nil, err
			}
			rows = rows[n:]
		}
		whole.Merge(m)
	}
	all := blas32.General{Rows: h * len(moments), Cols: k, Stride: k, Data: make([]float32, h*len(moments)*k)}
	for y := range moments {
		m := &moments[y]
		if m.N() < 2 {
			m = &whole
		}
		c, err := heads.ExactCertificates(m, heads.CertificatesOptions{K: k, UnitNorm: unitNorm})
		if err != nil {
			return nil, fmt.Errorf("class %d: %w", y, err)
		}
		copy(all.Data[y*h*k:], c.C.Data)
		if t.Progress != nil {
			t.Progress(float64(y+1) / float64(len(moments)))
		}
	}
	return newClassCertificates(all, len(moments), unitNorm), nil
}

// predicted are the rows of each predicted class.
func predicted(b ood.Batch) [][]int {
	rows := make([][]int, b.Logits.Cols)
	for i := range b.Logits.Rows {
		y := newSoftmax(row(b.Logits, i), 1).top
		rows[y] = append(rows[y], i)
	}
	return rows
}

// Score implements ood.Scorer.
func (s classCertificates) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkBothWidths(b, s.all.Rows/len(s.classes), len(s.classes)); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	for y, rows := range predicted(b) {
		for len(rows) > 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			n := min(len(rows), certificatesBlock)
			for i, v := range s.classes[y].Score(nil, pickRows(b.Features, rows[:n])) {
				dst[rows[i]] = v
			}
			rows = rows[n:]
		}
	}
	return dst, nil
}

// State implements heads.Stater.
func (s classCertificates) State() heads.State {
	h := s.all.Rows / len(s.classes)
	return heads.State{
		Params: map[string]any{"classes": float64(len(s.classes)), "width": float64(h), "unit_norm": s.classes[0].UnitNorm},
		Arrays: map[string]heads.Array{"certificates": {Shape: []int{s.all.Rows, s.all.Cols}, Data: s.all.Data}},
	}
}
