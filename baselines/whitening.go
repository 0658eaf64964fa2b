package baselines

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/heads"
)

// whitening takes rows to where Mahalanobis distances are Euclidean ones.
type whitening struct {
	mean       []float64      // h
	projection blas64.General // h×r; PPᵀ is the pseudo-inverse of the covariance
}

var errNoVariance = errors.New("the training features do not vary: there is no covariance to measure distances by")

// newWhitening inverts a covariance whose eigenvalues γ are first shrunk
// towards their mean, (1−shrinkage)γ + shrinkage·γ̄. Directions without
// variance are left out.
func newWhitening(mean []float64, s *spectrum, shrinkage float64) (whitening, error) {
	h := len(s.values)
	var average float64
	for _, v := range s.values {
		average += v / float64(h)
	}
	// Features are float32: rounding alone gives them a variance of about
	// 2⁻⁴⁸ of their square.
	least := float64(h) * 0x1p-48 * s.values[h-1]
	var kept []int
	for j, v := range s.values {
		if (1-shrinkage)*v+shrinkage*average > least {
			kept = append(kept, j)
		}
	}
	if len(kept) == 0 {
		return whitening{}, errNoVariance
	}
	p := newMatrix64(h, len(kept))
	for k, j := range kept {
		scale := 1 / math.Sqrt((1-shrinkage)*s.values[j]+shrinkage*average)
		for i := range h {
			p.Data[i*p.Stride+k] = scale * s.vectors.At(i, j)
		}
	}
	return whitening{mean, p}, nil
}

// apply returns the row x whitened.
func (w whitening) apply(x []float64) []float64 {
	y := make([]float64, w.projection.Cols)
	for i, v := range x {
		for k := range y {
			y[k] += (v - w.mean[i]) * w.projection.Data[i*w.projection.Stride+k]
		}
	}
	return y
}

// store puts the whitening into a state, under names that begin with prefix.
func (w whitening) store(s heads.State, prefix string) {
	s.Params[prefix+"rank"] = float64(w.projection.Cols)
	s.Arrays[prefix+"mean"] = heads.Vector(w.mean)
	s.Arrays[prefix+"projection"] = matrixArray(w.projection)
}

func restoreWhitening(s heads.State, prefix string) (whitening, error) {
	var w whitening
	rank, err := whole(s, prefix+"rank", 1)
	if err != nil {
		return w, err
	}
	if w.mean, err = s.Float64s(prefix + "mean"); err != nil {
		return w, err
	}
	w.projection, err = matrix64(s, prefix+"projection", len(w.mean), rank)
	return w, err
}
