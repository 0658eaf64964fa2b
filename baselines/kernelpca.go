package baselines

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// kernelPCA scores with the reconstruction error of principal components of a
// map of the features.
type kernelPCA struct {
	kernelMap
	mean       []float64      // m, of the mapped training rows
	components blas64.General // m×q
}

// kernelMap takes features to m dimensions in which inner products are, or
// approximate, a kernel: the cosine, or with frequencies a Gaussian kernel of
// rows of unit norm.
type kernelMap struct {
	width       int            // h
	frequencies blas64.General // h×m, or none
	phases      []float64      // m
}

// dim is m.
func (s kernelMap) dim() int {
	if s.frequencies.Cols > 0 {
		return s.frequencies.Cols
	}
	return s.width
}

// each calls visit with the mapped rows less centre, block after block.
func (s kernelMap) each(ctx context.Context, x blas32.General, centre []float64, visit func(first int, mapped blas64.General)) error {
	h, m := s.width, s.dim()
	block := min(spectrumBlock, x.Rows)
	zero, buf := make([]float64, h), make([]float64, block*h)
	mapped := newMatrix64(block, m)
	for first := 0; first < x.Rows; first += spectrumBlock {
		if err := ctx.Err(); err != nil {
			return err
		}
		unit := widened(x, first, min(first+spectrumBlock, x.Rows), zero, buf)
		for i := range unit.Rows {
			r := unit.Data[i*h : (i+1)*h]
			if norm := math.Sqrt(squaredNorm(r)); norm != 0 {
				for j := range r {
					r[j] /= norm
				}
			}
		}
		mapped.Rows = unit.Rows
		if s.frequencies.Cols == 0 {
			copy(mapped.Data, unit.Data)
		} else {
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, unit, s.frequencies, 0, mapped)
		}
		scale := math.Sqrt(2 / float64(m))
		for i := range mapped.Rows {
			r := mapped.Data[i*m : (i+1)*m]
			for j := range r {
				if s.phases != nil {
					r[j] = scale * math.Cos(r[j]+s.phases[j])
				}
				r[j] -= centre[j]
			}
		}
		visit(first, mapped)
	}
	return ctx.Err()
}

// fitKernelPCA keeps as many components as explain each share of the variance.
func fitKernelPCA(ctx context.Context, t ood.Training, k kernelMap, shares []float64) ([]ood.Scorer, error) {
	m, n := k.dim(), float64(t.Features.Rows)
	report := func(share float64) {
		if t.Progress != nil {
			t.Progress(share)
		}
	}
	mean, zero := make([]float64, m), make([]float64, m)
	err := k.each(ctx, t.Features, zero, func(first int, mapped blas64.General) {
		for i := range mapped.Rows {
			for j, v := range mapped.Data[i*m : (i+1)*m] {
				mean[j] += v / n
			}
		}
		report(.1 * float64(first) / n)
	})
	if err != nil {
		return nil, err
	}
	covariance := mat.NewSymDense(m, nil)
	err = k.each(ctx, t.Features, mean, func(first int, mapped blas64.General) {
		blas64.Syrk(blas.Trans, 1/n, mapped, 1, covariance.RawSymmetric())
		report(.1 + .5*float64(first)/n)
	})
	if err != nil {
		return nil, err
	}
	s, err := newSpectrum(covariance)
	if err != nil {
		return nil, err
	}
	var total float64
	for _, v := range s.values {
		total += v
	}
	// Rows of unit norm vary by less than float32 resolves.
	if !(total > 0x1p-44) {
		return nil, errors.New("the training features all point the same way: they have no principal components")
	}
	scorers := make([]ood.Scorer, len(shares))
	for i, share := range shares {
		q, sum := 0, 0.
		for q < max(1, m-1) && sum < share*total {
			q++
			sum += s.values[m-q]
		}
		c := newMatrix64(m, q)
		for r := range m {
			copy(c.Data[r*q:(r+1)*q], s.vectors.RawRowView(r)[m-q:])
		}
		scorers[i] = kernelPCA{k, mean, c}
	}
	return scorers, nil
}

// readVariance reads the share of the variance to explain.
func readVariance(r *ood.ParamReader, def float64) (float64, error) {
	v := r.Positive("variance", def)
	if err := r.Err(); err != nil {
		return 0, err
	}
	if v >= 1 {
		return 0, fmt.Errorf("parameter %q must be in (0,1), not %v", "variance", v)
	}
	return v, nil
}

// Score implements ood.Scorer.
func (s kernelPCA) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkWidth(b.Features, s.width, "features"); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	m, q := s.dim(), s.components.Cols
	y := newMatrix64(min(spectrumBlock, b.Features.Rows), q)
	err := s.each(ctx, b.Features, s.mean, func(first int, mapped blas64.General) {
		y.Rows = mapped.Rows
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, mapped, s.components, 0, y)
		blas64.Gemm(blas.NoTrans, blas.Trans, -1, y, s.components, 1, mapped)
		for i := range mapped.Rows {
			dst[first+i] = math.Sqrt(squaredNorm(mapped.Data[i*m : (i+1)*m]))
		}
	})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// State implements heads.Stater.
func (s kernelPCA) State() heads.State {
	st := heads.State{
		Params: map[string]any{"q": float64(s.components.Cols)},
		Arrays: map[string]heads.Array{"mean": heads.Vector(s.mean), "components": matrixArray(s.components)},
	}
	if s.frequencies.Cols > 0 {
		st.Params["width"] = float64(s.width)
		st.Arrays["frequencies"], st.Arrays["phases"] = matrixArray(s.frequencies), heads.Vector(s.phases)
	}
	return st
}

// restoreKernelPCA restores the principal components, of a map of the features
// that has frequencies or not.
func restoreKernelPCA(st heads.State, frequencies bool) (ood.Scorer, error) {
	var s kernelPCA
	q, err := whole(st, "q", 1)
	if err != nil {
		return nil, err
	}
	if s.mean, err = st.Float64s("mean"); err != nil {
		return nil, err
	}
	m := len(s.mean)
	if s.components, err = matrix64(st, "components", m, q); err != nil {
		return nil, err
	}
	s.width = m
	if !frequencies {
		return s, nil
	}
	if s.width, err = whole(st, "width", 1); err != nil {
		return nil, err
	}
	if s.frequencies, err = matrix64(st, "frequencies", s.width, m); err != nil {
		return nil, err
	}
	if s.phases, err = st.Float64s("phases"); err != nil {
		return nil, err
	}
	if len(s.phases) != m {
		return nil, fmt.Errorf("%d frequencies but %d phases", m, len(s.phases))
	}
	return s, nil
}
