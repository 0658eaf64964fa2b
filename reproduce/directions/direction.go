package directions

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/numeric/moments"
)

// direction is a principal direction of in-distribution features, with the response of
// certificates to shifts along it.
type direction struct {
	Vector   []float64 // length h, norm 1
	Variance float64   // variance of in-distribution features along the direction

	// Seen is ‖Cᵀv‖²/k for a direction v and k certificates C. A shift of length t raises the
	// expected score by Slope·t + Seen·t². If the features' variance along v grows by 1, the
	// expected score rises by Seen. Orthonormal certificates give values in [0, 1/k]. Seen is
	// 0 in their null space because no shift there changes the score.
	Seen float64
	// Slope is 2·(Cᵀv)·(Cᵀμ)/k with the in-distribution mean μ. It is the derivative of the
	// expected score by the length of a shift, at length 0.
	Slope float64
}

// principalDirections returns the h principal directions of the features in m, in
// descending order of variance. For each direction, it computes the response of the
// certificates c. The second part of theorem 1 is about this response. An
// out-of-distribution sample with additional variance Λ′ along V′ adds Λ′‖CᵀV′‖² to the
// expected squared norm ‖Cᵀφ‖². The score here is this norm divided by k, whatever the
// loss.
//
// m must hold features before c.Mean is subtracted. If c.UnitNorm is set, m must hold rows
// scaled to norm 1.
//
// Reference: Tagasovska & Lopez-Paz (2019), theorem 1.
func principalDirections(c linearCertificates, m *moments.Moments) ([]direction, error) {
	h := c.C.Rows
	values, vectors, err := eigen.Sym(m.Covariance())
	if err != nil {
		return nil, fmt.Errorf("the covariance of the features: %w", err)
	}
	mean := m.Mean()
	for j := range c.Mean {
		mean[j] -= float64(c.Mean[j])
	}
	certificates := mat.NewDense(h, c.C.Cols, dense.Less(c.C, nil).Data)
	var projections mat.Dense // h×k, one row for each direction
	projections.Mul(vectors.T(), certificates)
	var meanProjection mat.VecDense
	meanProjection.MulVec(certificates.T(), mat.NewVecDense(h, mean))

	k := float64(c.C.Cols)
	floor := roundingTolerance * mat.Norm(certificates, 2) * mat.Norm(certificates, 2) / k
	directions := make([]direction, h)
	for i := range directions {
		j := h - 1 - i
		d := direction{Vector: mat.Col(nil, j, vectors), Variance: max(values[j], 0)}
		projection := projections.RowView(j)
		if s := mat.Dot(projection, projection); s > floor {
			d.Seen, d.Slope = s/k, 2*mat.Dot(projection, &meanProjection)/k
		}
		directions[i] = d
	}
	return directions, nil
}

// roundingTolerance is a fraction of ‖C‖², the sum of the certificates' squared entries. A
// ‖Cᵀv‖² below this fraction is rounding error of float32 entries and counts as 0.
const roundingTolerance = 1e-12

// Shift returns the length of the shortest shift, forwards or backwards along the direction,
// that raises the expected score by rise. It returns +Inf if no shift does. rise must be
// positive.
func (d direction) Shift(rise float64) float64 {
	slope := math.Abs(d.Slope)
	return 2 * rise / (slope + math.Sqrt(slope*slope+4*d.Seen*rise))
}
