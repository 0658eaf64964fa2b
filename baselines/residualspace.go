package baselines

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// residualSpace is what the principal space of the features, seen from where
// the last layer's logits are as near 0 as can be, leaves over.
type residualSpace struct {
	origin []float64      // h
	basis  blas64.General // h×(h−k), orthonormal columns
}

// fitResidualSpaces leaves over what is outside the k principal components,
// for every k; a k of all features or more leaves one. reach is how far the
// mean of the training rows is from the origin.
func fitResidualSpaces(ctx context.Context, t ood.Training, ks []float64, method string) (spaces []residualSpace, reach float64, err error) {
	switch {
	case !t.HasFeatures():
		return nil, 0, &ood.NeedError{Method: method, Need: ood.NeedFeatures, Where: "the rows to fit with"}
	case t.Last == nil:
		return nil, 0, &ood.NeedError{Method: method, Need: ood.NeedWeights, Where: "the rows to fit with"}
	}
	h := t.Features.Cols
	if h < 2 {
		return nil, 0, fmt.Errorf("%s needs at least 2 features: one for the principal space and one outside of it", method)
	}
	if err := t.Last.Check(h, 0); err != nil {
		return nil, 0, err
	}
	m, err := moments(ctx, t.Features, method)
	if err != nil {
		return nil, 0, err
	}
	origin, err := newLastLayer(t).origin()
	if err != nil {
		return nil, 0, err
	}
	about := m.Covariance()
	shift := mat.NewVecDense(h, m.Mean())
	shift.SubVec(shift, mat.NewVecDense(h, origin))
	about.SymRankOne(about, 1, shift)
	s, err := newSpectrum(about)
	if err != nil {
		return nil, 0, err
	}
	spaces = make([]residualSpace, len(ks))
	for i, share := range ks {
		k, err := count(share, h)
		if err != nil {
			return nil, 0, err
		}
		basis := newMatrix64(h, h-min(k, h-1))
		for r := range h {
			copy(basis.Data[r*basis.Stride:(r+1)*basis.Stride], s.vectors.RawRowView(r))
		}
		spaces[i] = residualSpace{origin, basis}
	}
	return spaces, mat.Norm(shift, 2), nil
}

// origin is −W⁺b: of all features that make the logits' squares least, those
// of least norm.
func (l lastLayer) origin() ([]float64, error) {
	c, h := l.Weight.Rows, l.Weight.Cols
	w := widened(l.Weight, 0, c, make([]float64, h), make([]float64, c*h))
	gram := mat.NewSymDense(min(c, h), nil)
	small, target := blas.NoTrans, l.Bias
	if c > h {
		small, target = blas.Trans, make([]float64, h)
		blas64.Gemv(blas.Trans, 1, w, vector64(l.Bias), 0, vector64(target))
	}
	blas64.Syrk(small, 1, w, 0, gram.RawSymmetric())
	s, err := newSpectrum(gram)
	if err != nil {
		return nil, fmt.Errorf("the last layer: %w", err)
	}
	// The weights are float32, so are their singular values at best.
	resolution := float64(max(c, h)) / (1 << 24)
	least := resolution * resolution * s.values[len(s.values)-1]
	solved := make([]float64, len(target))
	for j, v := range s.values {
		if v <= least {
			continue
		}
		var along float64
		for i, t := range target {
			along += s.vectors.At(i, j) * t
		}
		for i := range solved {
			solved[i] -= s.vectors.At(i, j) * along / v
		}
	}
	if c > h {
		return solved, nil
	}
	origin := make([]float64, h)
	blas64.Gemv(blas.Trans, 1, w, vector64(solved), 0, vector64(origin))
	return origin, nil
}

func vector64(v []float64) blas64.Vector { return blas64.Vector{N: len(v), Inc: 1, Data: v} }

// norms calls each with how long what is left of every row is.
func (s residualSpace) norms(ctx context.Context, x blas32.General, each func(i int, norm float64)) error {
	return project(ctx, x, s.origin, s.basis, func(i int, y []float64) { each(i, math.Sqrt(squaredNorm(y))) })
}

func (s residualSpace) state(params map[string]any) heads.State {
	params["residual"] = float64(s.basis.Cols)
	return heads.State{Params: params, Arrays: map[string]heads.Array{
		"origin": heads.Vector(s.origin), "basis": matrixArray(s.basis),
	}}
}

func restoreResidualSpace(st heads.State) (residualSpace, error) {
	var s residualSpace
	k, err := whole(st, "residual", 1)
	if err != nil {
		return s, err
	}
	if s.origin, err = st.Float64s("origin"); err != nil {
		return s, err
	}
	s.basis, err = matrix64(st, "basis", len(s.origin), k)
	return s, err
}
