package table3

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// qccd scores a pair with quantiles, as sqr does. A kernel estimate of the copula, on
// normal scores, gives the quantiles. Pairs with fewer than 200 rows use only the median.
//
// Reference: Tagasovska, Chavez-Demoulin & Vatter (2020), Distinguishing cause from effect
// using quantiles: bivariate quantile causal discovery. Levels and weights are those of a
// Gauss quadrature rule.
//
// The bandwidth follows vinecopulib (tll, constant). It needs the largest correlation of
// transformed variables, which largestCorrelation estimates with splines.
func qccd(x, y []float64, rng *rand.Rand) (float64, error) {
	levels, weights := []float64{.5 - math.Sqrt(.15), .5, .5 + math.Sqrt(.15)}, []float64{5. / 18, 8. / 18, 5. / 18}
	if len(x) < 200 {
		levels, weights = []float64{.5}, []float64{1}
	}
	x, y = normalScores(x, rng), normalScores(y, rng)
	rho := min(max(stat.Correlation(x, y, nil), -.95), .95)
	h, err := bandwidth(x, y, rho)
	if err != nil {
		return 0, err
	}
	forward, backward := 0., 0.
	marginals := 0.
	for _, direction := range []struct {
		from, to []float64
		sum      *float64
	}{{x, y, &forward}, {y, x, &backward}} {
		sorted := slices.Sorted(slices.Values(direction.from))
		conditional := conditionalQuantiles(direction.from, direction.to, direction.from, rho, h, levels)
		for l, tau := range levels {
			q := quantileOf(sorted, tau)
			var marginal, loss float64
			for i := range direction.from {
				marginal += pinball(tau, direction.from[i]-q)
				loss += pinball(tau, direction.to[i]-conditional[l][i])
			}
			marginals += weights[l] * marginal
			*direction.sum += weights[l] * (marginal + loss)
		}
	}
	return (backward - forward) / marginals, nil
}

// bandwidth returns the standard deviation of each margin of the kernel. The kernel has
// correlation rho.
func bandwidth(x, y []float64, rho float64) (float64, error) {
	largest, err := largestCorrelation(x, y)
	return math.Sqrt(math.Pow(float64(len(x)), -1./3) * math.Pow(math.Abs(rho)/largest, largest/2)), err
}

// conditionalQuantiles returns quantiles of the variable to, given values of the variable from.
// The result has one row for each level and one column for each element of values. The function computes the
// quantiles at 30 points and interpolates linearly between them.
func conditionalQuantiles(from, to, values []float64, rho, h float64, levels []float64) [][]float64 {
	const points, limit = 30, 3.25
	gridPoints := floats.Span(make([]float64, points), -limit, limit)
	table := make([][]float64, len(levels))
	for l := range table {
		table[l] = make([]float64, points)
	}
	spread := h * math.Sqrt(1-rho*rho)
	for p, a := range gridPoints {
		var means, weights []float64
		for i, v := range from {
			d := (a - v) / h
			if w := math.Exp(-d * d / 2); w > 1e-6 || math.Abs(a) > 2.5 {
				means, weights = append(means, to[i]+rho*(a-v)), append(weights, w)
			}
		}
		total := floats.Sum(weights)
		for l, tau := range levels {
			low, high := -5., 5.
			for high-low > 1e-3 {
				middle, below := (low+high)/2, 0.
				for i, m := range means {
					below += weights[i] * distuv.UnitNormal.CDF((middle-m)/spread)
				}
				if below < tau*total {
					low = middle
				} else {
					high = middle
				}
			}
			table[l][p] = (low + high) / 2
		}
	}
	out := make([][]float64, len(levels))
	for l := range out {
		out[l] = make([]float64, len(values))
		for i, v := range values {
			position := min(max((v+limit)/(2*limit)*(points-1), 0), points-1)
			p := min(int(position), points-2)
			out[l][i] = table[l][p] + (position-float64(p))*(table[l][p+1]-table[l][p])
		}
	}
	return out
}

// largestCorrelation returns the largest correlation between any spline of x and any spline
// of y.
func largestCorrelation(x, y []float64) (float64, error) {
	const k = 8
	a, b := bsplines(x, k), bsplines(y, k)
	var cc stat.CC
	if err := cc.CanonicalCorrelations(dropLast(a), dropLast(b), nil); err != nil {
		return 0, err
	}
	return min(max(floats.Max(cc.CorrsTo(nil)), 1e-3), 1), nil
}

// dropLast removes the last column. The spline columns add up to 1, so one of them is
// redundant.
func dropLast(m *mat.Dense) mat.Matrix {
	r, c := m.Dims()
	return m.Slice(0, r, 0, c-1)
}
