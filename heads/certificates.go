package heads

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/numeric/moments"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

// certificatesMethod fits orthonormal certificates with the squared loss. It solves for
// them exactly.
var certificatesMethod = ood.Method{
	Name: "certificates",
	Doc: "Orthonormal certificates: the mean square of k linear functions of the features that are close to 0 on the training rows and larger elsewhere. Use it " +
		"for regressors of images, texts or series, where it is the default, or if the file must be small. The functions are orthonormal and minimise that mean square on the training " +
		"rows, solved exactly. k=0 uses three quarters of the number of features, and k below 1 is a fraction of it. lambda=0 is the hard constraint CᵀC=I; " +
		"other values weigh the penalty λ·mean((CᵀC−I)²). unit_norm scales rows to norm 1, and centred subtracts the mean.",
	Ref:    "Tagasovska & Lopez-Paz 2019, section 3",
	Needs:  ood.Needs{Features: true},
	Memory: func(t ood.Training, _ ood.Params) float64 { return eigen.Squares * squareBytes(t.Features.Cols) },
	Params: []ood.Param{
		{Name: "k", Default: 0, Takes: "share"}, {Name: "lambda", Default: 0, Takes: "least=0"}, {Name: "unit_norm", Default: true},
		{Name: "centred", Default: false},
	},
	Sweep: []ood.Params{
		{"lambda": 0., "unit_norm": true},
		{"lambda": 1., "unit_norm": true},
		{"lambda": 10., "unit_norm": true},
		{"lambda": 0., "unit_norm": false},
		{"lambda": 0., "unit_norm": true, "centred": true},
	},
	Fit: fitCertificates,
	New: func() any { return &certificates{} },
}

// squareBytes returns the size in bytes of a float64 matrix of width×width.
func squareBytes(width int) float64 { return 8 * float64(width) * float64(width) }

// certificates holds k linear functions of the features, the columns of C.
type certificates struct {
	C        blas32.General `state:"certificates[features,k]"`
	Mean     []float32      `state:"mean[features],optional"`    // subtracted from each row; nil if rows are not centred
	UnitNorm bool           `state:"unit_norm"`                  // scale rows to Euclidean norm 1 before Mean is subtracted
	Loss     train.Loss     `state:"loss,of=bce|mse|l1|pinball"` // training loss, which selects the score
}

// certificatesOf returns the number of certificates that a configuration selects for h
// features.
func certificatesOf(p ood.Params, h int) int {
	return cmp.Or(p.Count("k", h), max(1, 3*h/4))
}

// checkCertificates returns an error if k exceeds h, or if n rows cannot determine k
// certificates of h features. The rows span at most n directions, or n−1 if they are
// centred. If they leave more than k directions free, the choice of k directions is
// arbitrary.
func checkCertificates(n, h, k int, centred bool) error {
	need := max(h-k, 1)
	if centred {
		need = max(h-k+1, 2)
	}
	switch {
	case k > h:
		return fmt.Errorf("k is %d, but must lie between 1 and the number of features, %d", k, h)
	case n < need:
		return &rows.TooFewRowsError{What: fmt.Sprintf("%d certificates of %d features", k, h), Have: n, Need: need}
	}
	return nil
}

func fitCertificates(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	h, unit, centred := t.Features.Cols, p["unit_norm"].(bool), p["centred"].(bool)
	k := certificatesOf(p, h)
	if err := checkCertificates(t.Len(), h, k, centred); err != nil {
		return nil, err
	}
	m, s, err := memo.Spectrum(ctx, t, unit, centred)
	if err != nil {
		return nil, err
	}
	return solveExact(m, s, k, p.Float("lambda"), centred)
}

// solveExact returns the k certificates C that minimise the squared loss, the mean of
// (Cᵀφ)² over rows φ and certificates.
//
// If lambda is 0, the constraint is CᵀC = I. The solution consists of k eigenvectors of the
// second moment of the features, or of their covariance if centred is set. They are the
// eigenvectors with the smallest eigenvalues.
//
// If lambda is λ > 0, the penalty λ·mean((CᵀC−I)²) replaces the constraint. The solution
// consists of the same eigenvectors, but scaled: by √max(0, 1−kγ/(2λ)) for the eigenvalue
// γ. If all rows would get the same score, solveExact returns an error.
func solveExact(m *moments.Moments, s *eigen.Spectrum, k int, lambda float64, centred bool) (*certificates, error) {
	h := m.Width()
	if k == h && lambda == 0 && m.UnitNorm && !centred {
		return nil, fmt.Errorf("%d certificates of %d features give every row of unit norm the same score; choose a smaller k", k, h)
	}
	if lambda > 0 && float64(k)*s.Values[0] >= 2*lambda {
		return nil, fmt.Errorf("lambda is %v, so small that every certificate becomes 0; it must exceed %.3g here, or be 0 for the hard constraint",
			lambda, float64(k)*s.Values[0]/2)
	}
	c := &certificates{C: rows.New(h, k), UnitNorm: m.UnitNorm, Loss: "mse"}
	for j := range k {
		scale := 1.0
		if lambda > 0 {
			scale = math.Sqrt(max(0, 1-float64(k)*s.Values[j]/(2*lambda)))
		}
		for i := range h {
			c.C.Data[i*c.C.Stride+j] = float32(scale * s.Vectors.At(i, j))
		}
	}
	if centred {
		c.Mean = dense.Single(m.Mean())
	}
	return c, nil
}

// Score implements ood.Detector. Let f be the values of the k certificates for a row. The
// score is the mean of sigmoid(f)² for the BCE loss, and otherwise the mean of f². The
// paper has the squared norm, which differs by the factor k.
func (c *certificates) Score(_ context.Context, dst []float64, b ood.Batch) error {
	x := b.Features
	if c.Mean != nil {
		x = prepareRows(x, c.UnitNorm, c.Mean)
	}
	f := rows.New(x.Rows, c.C.Cols)
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, x, c.C, 0, f)
	for i := range dst {
		scale := 1.0
		if c.UnitNorm && c.Mean == nil {
			scale = rows.InverseNorm(rows.Row(x, i))
		}
		dst[i] = meanSquare(rows.Row(f, i), scale, c.Loss)
	}
	return nil
}

// meanSquare returns the score of a row. The values f of its certificates are multiplied by
// scale first.
func meanSquare(f []float32, scale float64, loss train.Loss) float64 {
	var s float64
	if loss == "bce" {
		for _, v := range f {
			p := 1 / (1 + math.Exp(-scale*float64(v)))
			s += p * p
		}
		return s / float64(len(f))
	}
	for _, v := range f {
		s += float64(v) * float64(v)
	}
	return s * scale * scale / float64(len(f))
}

// prepareRows returns the rows that certificates are applied to. It scales rows to norm 1
// if unit is set, and subtracts mean unless it is nil.
func prepareRows(phi blas32.General, unit bool, mean []float32) blas32.General {
	x := rows.New(phi.Rows, phi.Cols)
	for i := range phi.Rows {
		from, to, scale := rows.Row(phi, i), rows.Row(x, i), 1.0
		if unit {
			scale = rows.InverseNorm(from)
		}
		for j, v := range from {
			v = float32(scale * float64(v))
			if mean != nil {
				v -= mean[j]
			}
			to[j] = v
		}
	}
	return x
}

func (c *certificates) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	x := b.Features
	if c.Mean != nil {
		return meanSquareGraph(prepareRowsGraph(x, c.UnitNorm, c.Mean).MatMul(c.C), c.Loss), nil
	}
	return c.scoreGraph(x, x.MatMul(c.C)), nil
}

// scoreGraph adds graph nodes that compute the score of rows x from the values f of their
// certificates. If UnitNorm is set, it divides f by the norms of x, so x must not be scaled
// yet.
func (c *certificates) scoreGraph(x, f graph.Tensor) graph.Tensor {
	if c.UnitNorm {
		f = f.Double().Div(x.Norm().Max(1e-300))
	}
	return meanSquareGraph(f, c.Loss)
}

// meanSquareGraph adds graph nodes that compute meanSquare.
func meanSquareGraph(f graph.Tensor, loss train.Loss) graph.Tensor {
	f = f.Double()
	if loss == "bce" {
		f = f.Sigmoid()
	}
	return f.Square().Mean()
}

// prepareRowsGraph adds graph nodes that compute prepareRows.
func prepareRowsGraph(x graph.Tensor, unit bool, mean []float32) graph.Tensor {
	if unit {
		x = x.Unit().Single()
	}
	if mean != nil {
		x = x.Sub(mean)
	}
	return x
}
