package directions

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/numeric/moments"
)

// direction is a principal direction of in-domain features and what
// certificates see along it.
type direction struct {
	Vector   []float64 // of length h and norm 1
	Variance float64   // of in-domain features along it

	// Seen is ‖Cᵀv‖²/k, the rise of the expected score per squared length of
	// a shift along the direction, and of the variance of features along it.
	// It lies in [0,1/k] for orthonormal certificates, and is 0 in their null
	// space, where no shift can be seen.
	Seen float64
	// Slope is 2·(Cᵀv)·(Cᵀμ)/k with μ the in-domain mean: what a short shift
	// changes.
	Slope float64
}

// directionsOf are the h principal directions of the features that m has
// counted, by falling variance, as certificates see them. This is what the second part
// of theorem 1 is about: an out-of-domain distribution with variance Λ′ along
// V′ adds Λ′‖CᵀV′‖² to the squared norm ‖Cᵀφ‖², whose mean over k is taken for
// the score here, whatever the loss.
//
// Features are meant as certificates see them: scaled to norm 1 where UnitNorm
// says so. m counted rows of their width, scaled as they are.
//
// Reference: Tagasovska & Lopez-Paz (2019), theorem 1.
func directionsOf(c linear, m *moments.Moments) ([]direction, error) {
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
	var seen mat.Dense // h×k, of each direction
	seen.Mul(vectors.T(), certificates)
	var at mat.VecDense // of the mean
	at.MulVec(certificates.T(), mat.NewVecDense(h, mean))

	k := float64(c.C.Cols)
	floor := unseen * mat.Norm(certificates, 2) * mat.Norm(certificates, 2) / k
	directions := make([]direction, h)
	for i := range directions {
		j := h - 1 - i
		d := direction{Vector: mat.Col(nil, j, vectors), Variance: max(values[j], 0)}
		along := seen.RowView(j)
		if s := mat.Dot(along, along); s > floor {
			d.Seen, d.Slope = s/k, 2*mat.Dot(along, &at)/k
		}
		directions[i] = d
	}
	return directions, nil
}

// unseen is the share of the certificates' mean squared norm below which
// ‖Cᵀv‖² is rounding of their float32 entries.
const unseen = 1e-12

// Shift is the length of the shortest shift, along the direction or against
// it, that adds rise to the expected score: +Inf where none does. rise is
// positive.
func (d direction) Shift(rise float64) float64 {
	slope := math.Abs(d.Slope)
	return 2 * rise / (slope + math.Sqrt(slope*slope+4*d.Seen*rise))
}
