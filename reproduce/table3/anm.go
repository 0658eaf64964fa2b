package table3

import "math/rand/v2"

// anm scores a pair with additive noise models. Each variable is regressed on the other
// one. The cause is the regressor on which the residuals depend less, as measured by HSIC.
//
// Reference: Hoyer et al. (2009), Nonlinear causal discovery with additive noise models.
// The paper regresses with a Gaussian process. This function uses a P-spline instead.
func anm(x, y []float64, rng *rand.Rand) (float64, error) {
	x, y = subsample(x, y, hsicRows, rng)
	x, y = standardised(x), standardised(y)
	yResiduals, err := regress(x, y)
	if err != nil {
		return 0, err
	}
	xResiduals, err := regress(y, x)
	if err != nil {
		return 0, err
	}
	return lessDependent(newHSIC(x, yResiduals), newHSIC(y, xResiduals)), nil
}
