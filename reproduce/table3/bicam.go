package table3

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat"
)

// bicam scores a pair with causal additive models of two variables. It prefers the
// direction of larger Gaussian likelihood. In that direction, the product of the cause's
// variance and the residual variance is smaller.
//
// Reference: Bühlmann, Peters & Ernest (2014), CAM: causal additive models. The paper
// regresses with gam from the R package mgcv. This function uses a P-spline instead.
func bicam(x, y []float64, _ *rand.Rand) (float64, error) {
	x, y = standardised(x), standardised(y)
	yResiduals, err := regress(x, y)
	if err != nil {
		return 0, err
	}
	xResiduals, err := regress(y, x)
	return math.Log(stat.PopVariance(xResiduals, nil)) - math.Log(stat.PopVariance(yResiduals, nil)), err
}
