package table3

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// pnl scores a pair with post-nonlinear models, y = g⁻¹(f(x) + noise). The cause is the
// variable on which the noise depends less, as measured by HSIC.
//
// Reference: Zhang & Hyvärinen (2009), On the identifiability of the post-nonlinear causal
// model. The paper makes the noise independent of the cause by non-linear independent
// component analysis, with networks for f and g. Here f is a P-spline and log g′ is a
// spline. Both maximise the likelihood of Gaussian noise.
func pnl(x, y []float64, rng *rand.Rand) (float64, error) {
	x, y = subsample(x, y, hsicRows, rng)
	x, y = normalScores(x, rng), normalScores(y, rng)
	yResiduals, err := postNonlinearNoise(x, y)
	if err != nil {
		return 0, err
	}
	xResiduals, err := postNonlinearNoise(y, x)
	if err != nil {
		return 0, err
	}
	return lessDependent(newHSIC(x, yResiduals), newHSIC(y, xResiduals)), nil
}

// postNonlinearNoise fits f and g and returns g(y) − f(x).
func postNonlinearNoise(x, y []float64) ([]float64, error) {
	const k = 8
	n := len(x)
	slopes := bsplines(y, k)
	order := experiment.Indices(n)
	floats.ArgsortStable(append([]float64(nil), y...), order)
	s := newSmoother(x, splines/2)
	chol, err := s.factor(1)
	if err != nil {
		return nil, err
	}
	// g returns g(y) by the trapezoidal rule, its derivatives by the spline coefficients,
	// and log g′.
	g := func(a []float64) (g []float64, jacobian *mat.Dense, logSlopes []float64) {
		logSlopes = make([]float64, n)
		for i := range n {
			logSlopes[i] = floats.Dot(slopes.RawRowView(i), a)
		}
		g, jacobian = make([]float64, n), mat.NewDense(n, k, nil)
		for r := 1; r < n; r++ {
			i, j := order[r-1], order[r]
			gap := (y[j] - y[i]) / 2
			current, previous := gap*math.Exp(logSlopes[j]), gap*math.Exp(logSlopes[i])
			g[j] = g[i] + current + previous
			row := jacobian.RawRowView(j)
			copy(row, jacobian.RawRowView(i))
			floats.AddScaled(row, current, slopes.RawRowView(j))
			floats.AddScaled(row, previous, slopes.RawRowView(i))
		}
		floats.AddConst(-floats.Sum(g)/float64(n), g)
		return g, jacobian, logSlopes
	}
	const ridge = 1e-3
	problem := optimize.Problem{
		Func: func(a []float64) float64 {
			values, _, logSlopes := g(a)
			residuals := s.penalisedResiduals(chol, values)
			return math.Log(floats.Dot(residuals, residuals)/float64(n))/2 - floats.Sum(logSlopes)/float64(n) + ridge*floats.Dot(a, a)
		},
		Grad: func(grad, a []float64) {
			values, jacobian, _ := g(a)
			residuals := s.penalisedResiduals(chol, values)
			residualsOfResiduals := s.penalisedResiduals(chol, residuals) // the gradient of ‖residuals‖² applies the symmetric matrix I−fit twice
			var d mat.VecDense
			d.MulVec(jacobian.T(), mat.NewVecDense(n, residualsOfResiduals))
			sum := floats.Dot(residuals, residuals)
			for c := range k {
				grad[c] = (d.AtVec(c)-floats.Sum(residualsOfResiduals)/float64(n)*columnSum(jacobian, c))/sum - columnSum(slopes, c)/float64(n) + 2*ridge*a[c]
			}
		},
	}
	result, err := optimize.Minimize(problem, make([]float64, k), &optimize.Settings{MajorIterations: 100, GradientThreshold: 1e-5}, &optimize.LBFGS{})
	if result == nil {
		return nil, err
	}
	values, _, _ := g(result.X)
	return s.penalisedResiduals(chol, values), nil
}

func columnSum(m *mat.Dense, c int) float64 {
	var sum float64
	for i := range m.RawMatrix().Rows {
		sum += m.At(i, c)
	}
	return sum
}
