package table3

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// gpi is Gaussian process inference: y = f(x, e) with a Gaussian process f and
// noise e that is standard normal, and need not be added. The direction with the
// shorter description is causal, that of the cause by a mixture of Gaussians and
// that of the effect given the cause by the most probable noise.
//
// Reference: Mooij, Stegle, Janzing, Zhang & Schölkopf (2010), Probabilistic latent
// variable models for distinguishing between cause and effect. The kernel, the
// priors and the constants are those of the authors' code, which takes 500 rows and
// up to 10 000 evaluations of conjugate gradients; here they are 100 rows and 300
// steps of L-BFGS. Their start has a width of 100 along e, from which first steps
// come to where f is no longer smooth; here it is 15, the prior's mean.
func gpi(x, y []float64, rng *rand.Rand) (float64, error) {
	x, y = some(x, y, gpiRows, rng)
	x, y = zScores(x), zScores(y)
	order := rng.Perm(len(x))
	forward, err := describe(x, y, order)
	if err != nil {
		return 0, err
	}
	backward, err := describe(y, x, order)
	return backward - forward, err
}

// zScores have mean 0 and variance 1, with n−1 in the variance's denominator.
func zScores(v []float64) []float64 {
	mean, sd := stat.MeanStdDev(v, nil)
	out := slices.Clone(v)
	floats.AddConst(-mean, out)
	floats.Scale(1/sd, out)
	return out
}

// describe is the length of a description of x, and of y given x.
func describe(x, y []float64, order []int) (float64, error) {
	noise, err := regressionNoise(x, y)
	if err != nil {
		return 0, err
	}
	start := append([]float64{math.Log(10), math.Log(10), math.Log(15)}, noise...)
	length, err := minimise(func(at, gradient []float64) (float64, error) {
		if slices.Min(at[:3]) < -1 || slices.Max(at[:3]) > 6 {
			return 0, errSingular // a search along a line is not to leave what the priors allow
		}
		parts, err := describeNoise(x, y, at, gradient)
		return floats.Sum(parts[:]), err
	}, start)
	return length + describeMixture(x, order), err
}

// Constants of the authors' code.
const (
	gpiRows    = 100  // at most
	gpiJitter  = 1e-5 // of the kernel's diagonal
	gpiSmooth  = 1e-3 // of the logarithm of ∂f/∂e
	gpiBarrier = 100  // by how much the logarithm counts more where ∂f/∂e is negative
)

// describeNoise is the length of a description of y by noise e, in four parts: of
// y by the Gaussian process, of e, of the volume that f maps to (Σ log |∂f/∂e|),
// and of the kernel's parameters. at is the logarithm of the kernel's magnitude and
// of its widths along x and e, and then e; gradient, if not nil, is filled.
func describeNoise(x, y, at, gradient []float64) (parts [4]float64, err error) {
	n := len(x)
	e := at[3:]
	magnitude := math.Exp(2 * at[0])
	perX, perE := math.Exp(-2*at[1]), math.Exp(-2*at[2])
	k := mat.NewSymDense(n, nil)
	// change is ∂k/∂e of the first of two rows.
	change := mat.NewDense(n, n, nil)
	for i := range n {
		for j := i + 1; j < n; j++ {
			dx, de := x[i]-x[j], e[i]-e[j]
			value := magnitude * math.Exp(-(dx*dx*perX+de*de*perE)/2)
			k.SetSym(i, j, value)
			change.Set(i, j, -value*de*perE)
			change.Set(j, i, value*de*perE)
		}
		k.SetSym(i, i, magnitude+gpiJitter)
	}
	var chol mat.Cholesky
	if !chol.Factorize(k) {
		return parts, errSingular
	}
	var alpha mat.VecDense
	if err := chol.SolveVecTo(&alpha, mat.NewVecDense(n, y)); err != nil {
		return parts, err
	}
	a := alpha.RawVector().Data
	halfLog := float64(n) / 2 * math.Log(2*math.Pi)
	parts[0] = floats.Dot(y, a)/2 + chol.LogDet()/2 + halfLog
	parts[1] = floats.Dot(e, e)/2 + halfLog
	prior := distuv.Gamma{Alpha: 30, Beta: 2}
	for _, log := range at[:3] {
		parts[3] -= prior.LogProb(math.Exp(log))
	}
	var derivatives mat.VecDense // ∂f/∂e of each row
	derivatives.MulVec(change, &alpha)
	// slopes are the derivatives of the third part by those.
	slopes := derivatives.RawVector().Data
	for i, d := range slopes {
		d -= gpiSmooth
		weight, smooth := 1., math.Log(d*d+gpiSmooth)/2
		parts[2] += smooth
		if d < 0 {
			parts[2] += gpiBarrier * (smooth - math.Log(gpiSmooth)/2)
			weight += gpiBarrier
		}
		slopes[i] = weight * d / (d*d + gpiSmooth)
	}
	if gradient == nil {
		return parts, nil
	}
	var inverse mat.SymDense
	if err := chol.InverseTo(&inverse); err != nil {
		return parts, err
	}
	// u is by how much the third part falls with K⁻¹y, times K⁻¹.
	var moved, u mat.VecDense
	moved.MulVec(change.T(), &derivatives)
	if err := chol.SolveVecTo(&u, &moved); err != nil {
		return parts, err
	}
	back := u.RawVector().Data
	copy(gradient, make([]float64, 3))
	copy(gradient[3:], e)
	for i := range n {
		// On the diagonal only the magnitude changes the kernel.
		gradient[0] += 2 * magnitude * ((inverse.At(i, i)-a[i]*a[i])/2 - back[i]*a[i])
		values, inverses, changes := k.RawSymmetric().Data[i*n:(i+1)*n], inverse.RawSymmetric().Data[i*n:(i+1)*n], change.RawRowView(i)
		for j := i + 1; j < n; j++ {
			value, slope := values[j], changes[j]
			dx, de := x[i]-x[j], e[i]-e[j]
			far := de * de * perE
			// What k, ∂k/∂e of i and j, and its negative of j and i add, both ways at once.
			byK := inverses[j] - a[i]*a[j] - back[i]*a[j] - back[j]*a[i]
			bySlope := slopes[i]*a[j] - slopes[j]*a[i]
			gradient[0] += 2 * (byK*value + bySlope*slope)
			gradient[1] += dx * dx * perX * (byK*value + bySlope*slope)
			gradient[2] += byK*value*far + bySlope*slope*(far-2)
			move := byK*slope + bySlope*value*perE*(far-1)
			gradient[3+i] += move
			gradient[3+j] -= move
		}
	}
	for i, log := range at[:3] {
		gradient[i] -= (prior.Alpha - 1) - prior.Beta*math.Exp(log)
	}
	return parts, nil
}

// regressionNoise is what a Gaussian process regression leaves of y, standardised.
func regressionNoise(x, y []float64) ([]float64, error) {
	n := len(x)
	var noise []float64
	evidence := func(at, gradient []float64) (float64, error) {
		width, magnitude, variance := math.Exp(-2*at[0]), math.Exp(2*at[1]), math.Exp(2*at[2])
		k := mat.NewSymDense(n, nil)
		for i := range n {
			for j := i; j < n; j++ {
				d := x[i] - x[j]
				k.SetSym(i, j, magnitude*math.Exp(-d*d*width/2))
			}
			k.SetSym(i, i, magnitude+variance+1e-8)
		}
		var chol mat.Cholesky
		if !chol.Factorize(k) {
			return 0, errSingular
		}
		var alpha mat.VecDense
		if err := chol.SolveVecTo(&alpha, mat.NewVecDense(n, y)); err != nil {
			return 0, err
		}
		a := alpha.RawVector().Data
		if noise = a; gradient != nil {
			var inverse mat.SymDense
			if err := chol.InverseTo(&inverse); err != nil {
				return 0, err
			}
			gradient[0], gradient[1], gradient[2] = 0, 0, 0
			for i := range n {
				for j := range n {
					d, w := x[i]-x[j], (inverse.At(i, j)-a[i]*a[j])/2
					if i == j {
						gradient[1] += 2 * w * magnitude
						gradient[2] += 2 * w * variance
						continue
					}
					gradient[0] += w * k.At(i, j) * d * d * width
					gradient[1] += 2 * w * k.At(i, j)
				}
			}
		}
		return floats.Dot(y, a)/2 + chol.LogDet()/2, nil
	}
	best := []float64{math.Log(.4), 0, math.Log(.2)}
	if _, err := minimise(evidence, best); err != nil {
		return nil, err
	}
	if _, err := evidence(best, nil); err != nil {
		return nil, err
	}
	return zScores(noise), nil
}

// minimise returns the least value that L-BFGS comes to from a start, which it
// replaces by where that is.
func minimise(of func(at, gradient []float64) (float64, error), start []float64) (float64, error) {
	last, gradient := []float64(nil), make([]float64, len(start))
	var value float64
	evaluate := func(at []float64) float64 {
		if !slices.Equal(at, last) {
			var err error
			if value, err = of(at, gradient); err != nil {
				value = math.Inf(1)
			}
			last = slices.Clone(at)
		}
		return value
	}
	if first := evaluate(start); math.IsInf(first, 0) || math.IsNaN(first) {
		return 0, errSingular
	}
	result, err := optimize.Minimize(optimize.Problem{
		Func: evaluate,
		Grad: func(to, at []float64) {
			evaluate(at)
			copy(to, gradient)
		},
	}, start, &optimize.Settings{
		MajorIterations: 300, GradientThreshold: 1e-3,
		Converger: &optimize.FunctionConverge{Absolute: 1e-3, Iterations: 10},
	}, &optimize.LBFGS{})
	if result == nil {
		return 0, err
	}
	// A search along a line that comes no further is an end as any other.
	copy(start, result.X)
	return result.F, nil
}
