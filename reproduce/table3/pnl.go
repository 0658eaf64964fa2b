package table3

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// pnl is a post-nonlinear model, y = g⁻¹(f(x) + noise): the direction in which the
// noise depends less on the cause, by HSIC.
//
// Reference: Zhang & Hyvärinen (2009), On the identifiability of the post-nonlinear
// causal model. They make the noise independent of the cause by non-linear
// independent components, with networks for f and g; here f is a P-spline, log g′ is
// a spline, and both maximise the likelihood of Gaussian noise.
func pnl(x, y []float64, rng *rand.Rand) (float64, error) {
	x, y = some(x, y, hsicRows, rng)
	x, y = normalScores(x, rng), normalScores(y, rng)
	ofY, err := postNonlinearNoise(x, y)
	if err != nil {
		return 0, err
	}
	ofX, err := postNonlinearNoise(y, x)
	if err != nil {
		return 0, err
	}
	return lessDependent(newHSIC(x, ofY), newHSIC(y, ofX)), nil
}

// postNonlinearNoise is g(y) − f(x).
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
	// g and its derivatives by the coefficients, by the trapezoidal rule.
	g := func(a []float64) (g []float64, by *mat.Dense, logs []float64) {
		logs = make([]float64, n)
		for i := range n {
			logs[i] = floats.Dot(slopes.RawRowView(i), a)
		}
		g, by = make([]float64, n), mat.NewDense(n, k, nil)
		for r := 1; r < n; r++ {
			i, j := order[r-1], order[r]
			gap := (y[j] - y[i]) / 2
			at, before := gap*math.Exp(logs[j]), gap*math.Exp(logs[i])
			g[j] = g[i] + at + before
			row := by.RawRowView(j)
			copy(row, by.RawRowView(i))
			floats.AddScaled(row, at, slopes.RawRowView(j))
			floats.AddScaled(row, before, slopes.RawRowView(i))
		}
		floats.AddConst(-floats.Sum(g)/float64(n), g)
		return g, by, logs
	}
	const ridge = 1e-3
	problem := optimize.Problem{
		Func: func(a []float64) float64 {
			values, _, logs := g(a)
			rest := s.rest(chol, values)
			return math.Log(floats.Dot(rest, rest)/float64(n))/2 - floats.Sum(logs)/float64(n) + ridge*floats.Dot(a, a)
		},
		Grad: func(grad, a []float64) {
			values, by, _ := g(a)
			rest := s.rest(chol, values)
			twice := s.rest(chol, rest) // the fit is a symmetric matrix
			var d mat.VecDense
			d.MulVec(by.T(), mat.NewVecDense(n, twice))
			sum := floats.Dot(rest, rest)
			for c := range k {
				grad[c] = (d.AtVec(c)-floats.Sum(twice)/float64(n)*columnSum(by, c))/sum - columnSum(slopes, c)/float64(n) + 2*ridge*a[c]
			}
		},
	}
	result, err := optimize.Minimize(problem, make([]float64, k), &optimize.Settings{MajorIterations: 100, GradientThreshold: 1e-5}, &optimize.LBFGS{})
	if result == nil {
		return nil, err
	}
	values, _, _ := g(result.X)
	return s.rest(chol, values), nil
}

func columnSum(m *mat.Dense, c int) float64 {
	var sum float64
	for i := range m.RawMatrix().Rows {
		sum += m.At(i, c)
	}
	return sum
}
