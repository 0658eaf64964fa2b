package table3

import "math/rand/v2"

// anm is an additive noise model: the direction in which residuals depend less on
// the cause, by HSIC.
//
// Reference: Hoyer et al. (2009), Nonlinear causal discovery with additive noise
// models. They regress with a Gaussian process; here it is a P-spline.
func anm(x, y []float64, rng *rand.Rand) (float64, error) {
	x, y = some(x, y, hsicRows, rng)
	x, y = standardised(x), standardised(y)
	ofY, err := regress(x, y)
	if err != nil {
		return 0, err
	}
	ofX, err := regress(y, x)
	if err != nil {
		return 0, err
	}
	return lessDependent(newHSIC(x, ofY), newHSIC(y, ofX)), nil
}
