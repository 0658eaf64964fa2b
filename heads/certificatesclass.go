package heads

import (
	"cmp"
	"context"
	"fmt"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/numeric/moments"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var certificatesClassMethod = ood.Method{
	Name: "certificates-class",
	Doc: "Orthonormal certificates for each predicted class: the mean square of k linear functions that are close to 0 on the training rows of that class. Use " +
		"it if each class has many training rows, and if classes vary in different directions. The functions are orthonormal and minimise that mean square, " +
		"solved exactly. A class with too few training rows to determine its certificates (fewer than the number of features less k) uses the certificates of " +
		"all rows. k=0 uses half of the number of features, and k below 1 is a fraction of it. unit_norm scales rows to norm 1.",
	Ref:   "Tagasovska & Lopez-Paz 2019, section 3, for each predicted class",
	Needs: ood.Needs{Features: true, Logits: true},
	Memory: func(t ood.Training, p ood.Params) float64 {
		h := t.Features.Cols
		k := classCertificatesOf(p, h)
		// An upper bound on the number of classes that have enough rows.
		classes := min(float64(t.Logits.Cols), float64(t.Len())/float64(max(h-k, 2)))
		return eigen.Squares*squareBytes(h) + classes*(squareBytes(h)+4*float64(h)*float64(k))
	},
	Params: []ood.Param{{Name: "k", Default: 0, Takes: "share"}, {Name: "unit_norm", Default: true}},
	Sweep: []ood.Params{
		{"k": .25, "unit_norm": true}, {"k": .5, "unit_norm": true}, {"k": .75, "unit_norm": true}, {"k": .9, "unit_norm": true},
		{"k": .5, "unit_norm": false},
	},
	Fit: fitClassCertificates,
	New: func() any { return &classCertificates{} },
}

// classCertificatesOf returns the number of certificates per class that a configuration
// selects for h features.
func classCertificatesOf(p ood.Params, h int) int {
	return cmp.Or(p.Count("k", h), max(1, h/2))
}

// classCertificates holds certificates of each class with enough rows. The other classes
// use the certificates of all rows.
type classCertificates struct {
	All     certificates    `state:"all"`
	Own     []int           `state:"own[logits],least=-1"` // for each class, its index in Classes, or −1 if it uses All
	Classes []*certificates `state:"classes"`
}

func (s *classCertificates) Restored() error {
	for y, k := range s.Own {
		if k >= len(s.Classes) {
			return fmt.Errorf("class %d refers to certificates %d of %d", y, k, len(s.Classes))
		}
	}
	for i, c := range s.Classes {
		if have, want := c.C.Cols, s.All.C.Cols; have != want {
			return fmt.Errorf("classes.%d has %d certificates, but all rows together have %d", i, have, want)
		}
	}
	return nil
}

func fitClassCertificates(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	h := t.Features.Cols
	k := classCertificatesOf(p, h)
	fit := func(classRows []int) (*certificates, error) {
		m := &moments.Moments{UnitNorm: p["unit_norm"].(bool)}
		phi := t.Features
		if classRows != nil {
			phi = rows.Select(phi, classRows)
		}
		if err := checkCertificates(phi.Rows, h, k, false); err != nil {
			return nil, err
		}
		if err := m.Add(ctx, phi); err != nil {
			return nil, err
		}
		spectrum, err := memo.SpectrumOf(m, false)
		if err != nil {
			return nil, err
		}
		return solveExact(m, spectrum, k, 0, false)
	}
	all, err := fit(nil)
	if err != nil {
		return nil, err
	}
	s := &classCertificates{All: *all, Own: make([]int, t.Logits.Cols)}
	for y, classRows := range rowsByClass(t.Batch) {
		s.Own[y] = -1
		// A class with too few rows to determine its certificates uses the certificates of
		// all rows.
		if len(classRows) < max(2, h-k) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c, err := fit(classRows)
		if err != nil {
			return nil, fmt.Errorf("class %d: %w", y, err)
		}
		s.Own[y], s.Classes = len(s.Classes), append(s.Classes, c)
		t.Progress(float64(y+1) / float64(t.Logits.Cols))
	}
	return s, nil
}

// rowsByClass returns the indices of the rows of each predicted class.
func rowsByClass(b ood.Batch) [][]int {
	classRows := make([][]int, b.Logits.Cols)
	for i, y := range rows.Argmax(b.Logits) {
		classRows[y] = append(classRows[y], i)
	}
	return classRows
}

func (s *classCertificates) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	for y, classRows := range rowsByClass(b) {
		if len(classRows) == 0 {
			continue
		}
		c := &s.All
		if k := s.Own[y]; k >= 0 {
			c = s.Classes[k]
		}
		scores := make([]float64, len(classRows))
		if err := c.Score(ctx, scores, ood.Batch{Features: rows.Select(b.Features, classRows)}); err != nil {
			return err
		}
		for i, r := range classRows {
			dst[r] = scores[i]
		}
	}
	return nil
}

func (s *classCertificates) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	h, k := s.All.C.Rows, s.All.C.Cols
	if size := 4 * h * k * (len(s.Classes) + 1); size > graph.MostBank {
		return graph.Tensor{}, graph.Refuse("its certificates of %d classes are %d MB, and a graph holds %d MB at most", len(s.Classes), size>>20, graph.MostBank>>20)
	}
	var all []float32
	for _, c := range append([]*certificates{&s.All}, s.Classes...) {
		for i := range h {
			all = append(all, rows.Row(c.C, i)...)
		}
	}
	indices := make([]int64, len(s.Own))
	for y, k := range s.Own {
		indices[y] = int64(k + 1)
	}
	x := b.Features
	own := b.Logits.ArgMax().Lookup(indices).Rows(x.Constant(all, len(s.Classes)+1, h, k)) // n×h×k
	f := x.Reshape(0, 1, int64(h)).MatMul(own).Reshape(-1, int64(k))
	return s.All.scoreGraph(x, f), nil
}
