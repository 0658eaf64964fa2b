package table3

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// lingam scores a pair with a linear model with non-Gaussian noise. Independent component
// analysis estimates the coefficient of each variable on the other, and the larger
// coefficient gives the causal direction. Standardised variables make the result
// independent of units.
//
// Reference: Shimizu et al. (2006), A linear non-Gaussian acyclic model for causal
// discovery. As in the authors' code, the components come from FastICA with the log cosh
// contrast.
func lingam(x, y []float64, _ *rand.Rand) (float64, error) {
	x, y = standardised(x), standardised(y)
	w := unmixing(x, y)
	// Assign each component to the variable with the larger weight. The assignment
	// considers both components together.
	if 1/math.Abs(w[0][0])+1/math.Abs(w[1][1]) > 1/math.Abs(w[0][1])+1/math.Abs(w[1][0]) {
		w[0], w[1] = w[1], w[0]
	}
	return math.Abs(w[1][0]/w[1][1]) - math.Abs(w[0][1]/w[0][0]), nil
}

// unmixing returns the matrix that turns two standardised variables into independent
// components, by FastICA.
func unmixing(x, y []float64) [2][2]float64 {
	rho := min(max(stat.Correlation(x, y, nil), -1+1e-12), 1-1e-12)
	// Principal axes of two standardised variables always lie at 45°.
	white := [2][2]float64{
		{1 / math.Sqrt(2*(1+rho)), 1 / math.Sqrt(2*(1+rho))},
		{1 / math.Sqrt(2*(1-rho)), -1 / math.Sqrt(2*(1-rho))},
	}
	u, v := make([]float64, len(x)), make([]float64, len(x))
	for i := range x {
		u[i], v[i] = white[0][0]*x[i]+white[0][1]*y[i], white[1][0]*x[i]+white[1][1]*y[i]
	}
	w := mat.NewDense(2, 2, []float64{1, 0, 0, 1})
	for range 1000 {
		next := mat.NewDense(2, 2, nil)
		for c := range 2 {
			a, b := w.At(c, 0), w.At(c, 1)
			var first, second, slope float64
			for i := range u {
				g := math.Tanh(a*u[i] + b*v[i])
				first, second, slope = first+u[i]*g, second+v[i]*g, slope+1-g*g
			}
			n := float64(len(u))
			next.SetRow(c, []float64{(first - slope*a) / n, (second - slope*b) / n})
		}
		var svd mat.SVD
		if !svd.Factorize(next, mat.SVDFull) {
			break
		}
		var left, right mat.Dense
		svd.UTo(&left)
		svd.VTo(&right)
		next.Mul(&left, right.T())
		change := 0.
		for c := range 2 {
			change = max(change, math.Abs(math.Abs(mat.Dot(next.RowView(c), w.RowView(c)))-1))
		}
		w = next
		if change < 1e-12 {
			break
		}
	}
	var out [2][2]float64
	for c := range 2 {
		for j := range 2 {
			out[c][j] = w.At(c, 0)*white[0][j] + w.At(c, 1)*white[1][j]
		}
	}
	return out
}
