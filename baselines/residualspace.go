package baselines

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

// residualSpace is the orthogonal complement of the principal components of the features.
// Features are measured from an origin where the logits of the last layer are as near 0 as
// possible.
type residualSpace struct {
	Origin []float64      `state:"origin[features]"`
	Basis  blas64.General `state:"basis[features,left]"` // orthonormal basis of the complement, in columns
}

// centredMoments describes the training rows relative to the origin of residualSpace.
type centredMoments struct {
	origin          []float64 // one element per feature
	meanDistance    float64   // distance from the origin to the mean of the rows
	*eigen.Spectrum           // eigendecomposition of the second moment of the rows
}

// momentsAboutOrigin returns the origin and the moments of the training rows about it.
func momentsAboutOrigin(ctx context.Context, t ood.Training) (*centredMoments, error) {
	type key struct{}
	return memo.Cached(ctx, t.Batch, key{}, func() (*centredMoments, error) {
		h := t.Features.Cols
		if h < 2 {
			return nil, errors.New("at least 2 features are needed: one for the principal space and one outside of it")
		}
		m, err := memo.Moments(ctx, t, false)
		if err != nil {
			return nil, err
		}
		origin, err := minLogitsPoint(t.Last)
		if err != nil {
			return nil, err
		}
		about := m.Covariance()
		shift := mat.NewVecDense(h, m.Mean())
		shift.SubVec(shift, mat.NewVecDense(h, origin))
		about.SymRankOne(about, 1, shift)
		s, err := eigen.NewSpectrum(about)
		return &centredMoments{origin, mat.Norm(shift, 2), s}, err
	})
}

// complement returns the space orthogonal to the first k principal components. Even if k is
// the number of features or more, the space has at least one dimension.
func (s *centredMoments) complement(p ood.Params) residualSpace {
	h := len(s.origin)
	return residualSpace{s.origin, s.Components(0, h-min(p.Count("k", h), h-1))}
}

// minLogitsPoint returns −W⁺b, the point that minimises the sum of squared logits. If
// several points do, it returns the point with the smallest norm.
func minLogitsPoint(l *ood.Linear) ([]float64, error) {
	c, h := l.Weight.Rows, l.Weight.Cols
	w, bias := dense.Less(l.Weight, nil), make([]float64, c)
	for i, b := range l.Bias {
		bias[i] = float64(b)
	}
	gram := mat.NewSymDense(min(c, h), nil)
	small, target := blas.NoTrans, bias
	if c > h {
		small, target = blas.Trans, make([]float64, h)
		blas64.Gemv(blas.Trans, 1, w, dense.Vector(bias), 0, dense.Vector(target))
	}
	blas64.Syrk(small, 1, w, 0, gram.RawSymmetric())
	s, err := eigen.NewSpectrum(gram)
	if err != nil {
		return nil, fmt.Errorf("the last layer: %w", err)
	}
	// Because the weights are float32, smaller singular values are only rounding errors.
	resolution := float64(max(c, h)) / (1 << 24)
	minValue := resolution * resolution * s.Values[len(s.Values)-1]
	solved := make([]float64, len(target))
	for j, v := range s.Values {
		if v <= minValue {
			continue
		}
		var along float64
		for i, t := range target {
			along += s.Vectors.At(i, j) * t
		}
		for i := range solved {
			solved[i] -= s.Vectors.At(i, j) * along / v
		}
	}
	if c > h {
		return solved, nil
	}
	origin := make([]float64, h)
	blas64.Gemv(blas.Trans, 1, w, dense.Vector(solved), 0, dense.Vector(origin))
	return origin, nil
}

// norms writes the norm of the part of each row that is in the complement.
func (s residualSpace) norms(dst []float64, x blas32.General) {
	y := dense.Project(x, s.Origin, s.Basis)
	for i := range dst {
		dst[i] = math.Sqrt(dense.SquaredNorm(dense.Row(y, i)))
	}
}

// meanNorm returns the mean of norms over the rows of x.
func (s residualSpace) meanNorm(ctx context.Context, x blas32.General) (mean float64) {
	for _, part := range blocks(ctx, x) {
		norms := make([]float64, part.Rows)
		s.norms(norms, part)
		mean += floats.Sum(norms) / float64(x.Rows)
	}
	return mean
}

// normsGraph adds graph nodes that compute norms for rows x.
func (s residualSpace) normsGraph(x graph.Tensor) graph.Tensor {
	return x.Double().Sub(s.Origin).MatMul(graph.Compact(s.Basis)).Norm()
}
