package heads

import (
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/heads/train"

	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/eigen"
	"github.com/attach-uncertainty/attach/internal/rows"
)

// ExactCertificates solves the squared loss mean (Cᵀφ)², averaged over rows
// and certificates. Under the constraint CᵀC = I the minimum is at the k
// eigenvectors of the second moment of the features (with Centre: of their
// covariance) that have the smallest eigenvalues. With the penalty
// λ·mean((CᵀC−I)²), λ > 0, it is at the same eigenvectors, the one with
// eigenvalue γ scaled by √max(0, 1−kγ/(2λ)).
//
// Whether rows are scaled to unit norm is read from m, not from o.
func ExactCertificates(m *Moments, o CertificatesOptions) (*Certificates, error) {
	o, err := o.resolve(m.N(), m.Width())
	if err != nil {
		return nil, err
	}
	if o.Trained {
		return nil, fmt.Errorf("loss %q has no exact solution: only the squared loss does", o.Loss)
	}
	h := m.Width()
	if o.K == h && o.Lambda == 0 && m.UnitNorm && !o.Centre {
		return nil, fmt.Errorf("%d certificates of %d features score every row of unit norm alike: ask for fewer", o.K, h)
	}
	second := m.SecondMoment
	if o.Centre {
		second = m.Covariance
	}
	values, vectors, err := eigen.Sym(second())
	if err != nil {
		return nil, fmt.Errorf("second moment of the features: %w", err)
	}

	c := &Certificates{
		C: rows.New(h, o.K), UnitNorm: m.UnitNorm, Loss: train.MSE, Exact: true, Lambda: o.Lambda,
	}
	for j := range o.K {
		scale := 1.0
		if o.Lambda > 0 {
			scale = math.Sqrt(max(0, 1-float64(o.K)*max(values[j], 0)/(2*o.Lambda)))
		}
		scale *= sign(vectors, j)
		for i := range h {
			c.C.Data[i*c.C.Stride+j] = float32(scale * vectors.At(i, j))
		}
	}
	if o.Lambda > 0 && float64(o.K)*values[0] >= 2*o.Lambda {
		return nil, fmt.Errorf("lambda %v is so weak that every certificate shrinks to 0: it must exceed %.3g here, or be 0 for the hard constraint",
			o.Lambda, float64(o.K)*values[0]/2)
	}
	if o.Centre {
		c.Mean = make([]float32, h)
		for j, v := range m.Mean() {
			c.Mean[j] = float32(v)
		}
	}
	return c, nil
}

// sign is the factor that makes the largest entry of column j positive, so
// that a certificate does not depend on the eigensolver's choice.
func sign(v *mat.Dense, j int) float64 {
	var largest float64
	for i := range v.RawMatrix().Rows {
		if x := v.At(i, j); math.Abs(x) > math.Abs(largest) {
			largest = x
		}
	}
	if largest < 0 {
		return -1
	}
	return 1
}
