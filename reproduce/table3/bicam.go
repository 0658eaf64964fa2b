package table3

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat"
)

// bicam is a causal additive model of two variables: the direction of the larger
// Gaussian likelihood, which is that of the smaller product of the cause's
// variance and the residuals'.
//
// Reference: Bühlmann, Peters & Ernest (2014), CAM: causal additive models. They
// regress with gam of mgcv; here it is a P-spline.
func bicam(x, y []float64, _ *rand.Rand) (float64, error) {
	x, y = standardised(x), standardised(y)
	ofY, err := regress(x, y)
	if err != nil {
		return 0, err
	}
	ofX, err := regress(y, x)
	return math.Log(stat.PopVariance(ofX, nil)) - math.Log(stat.PopVariance(ofY, nil)), err
}
