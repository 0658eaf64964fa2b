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

// gpi scores a pair by Gaussian process inference. Its model is y = f(x, e), with a
// Gaussian process f and standard normal noise e that need not be additive. The direction
// with the shorter description is causal. A mixture of Gaussians describes the cause, and
// the most probable noise describes the effect given the cause.
//
// Reference: Mooij, Stegle, Janzing, Zhang & Schölkopf (2010), Probabilistic latent
// variable models for distinguishing between cause and effect. The kernel, the priors and
// the constants come from the authors' code.
//
// That code takes 500 rows and up to 10,000 evaluations of conjugate gradients. This
// function takes 100 rows and 300 steps of L-BFGS. The authors start with a width of 100
// along e, but the first steps then reach a region where f is no longer smooth. This
// function starts at 15, the mean of the prior.
func gpi(x, y []float64, rng *rand.Rand) (float64, error) {
	x, y = subsample(x, y, gpiRows, rng)
	x, y = zScores(x), zScores(y)
	order := rng.Perm(len(x))
	forward, err := descriptionLength(x, y, order)
	if err != nil {
		return 0, err
	}
	backward, err := descriptionLength(y, x, order)
	return backward - forward, err
}

// zScores scales values to mean 0 and variance 1. The variance has the denominator n−1.
func zScores(v []float64) []float64 {
	mean, sd := stat.MeanStdDev(v, nil)
	out := slices.Clone(v)
	floats.AddConst(-mean, out)
	floats.Scale(1/sd, out)
	return out
}

// descriptionLength returns the length of a description of x plus the length of a
// description of y given x.
func descriptionLength(x, y []float64, order []int) (float64, error) {
	noise, err := regressionNoise(x, y)
	if err != nil {
		return 0, err
	}
	start := append([]float64{math.Log(10), math.Log(10), math.Log(15)}, noise...)
	length, err := minimise(func(params, gradient []float64) (float64, error) {
		if slices.Min(params[:3]) < -1 || slices.Max(params[:3]) > 6 {
			return 0, errSingular // the priors exclude this region, so the line search must not enter it
		}
		parts, err := descriptionParts(x, y, params, gradient)
		return floats.Sum(parts[:]), err
	}, start)
	return length + mixtureLength(x, order), err
}

// These constants come from the authors' code, except gpiRows.
const (
	gpiRows      = 100  // maximum number of rows
	gpiJitter    = 1e-5 // added to the kernel's diagonal
	gpiSmoothing = 1e-3 // smooths log |∂f/∂e| near 0
	gpiBarrier   = 100  // extra weight of that logarithm if ∂f/∂e is negative
)

// descriptionParts returns the length of a description of y by noise e in four parts:
//
//   - 0: y by the Gaussian process
//   - 1: the noise e
//   - 2: the change of volume by f, Σ log |∂f/∂e|
//   - 3: the parameters of the kernel
//
// params holds the logarithms of the kernel's magnitude and of its widths along x and e,
// followed by e itself. If gradient is not nil, the function fills it with the derivatives
// of the sum of the parts.
func descriptionParts(x, y, params, gradient []float64) (parts [4]float64, err error) {
	n := len(x)
	e := params[3:]
	magnitude := math.Exp(2 * params[0])
	precisionX, precisionE := math.Exp(-2*params[1]), math.Exp(-2*params[2])
	k := mat.NewSymDense(n, nil)
	// kernelSlopes holds the derivative of each entry k(i, j) by e[i].
	kernelSlopes := mat.NewDense(n, n, nil)
	for i := range n {
		for j := i + 1; j < n; j++ {
			dx, de := x[i]-x[j], e[i]-e[j]
			value := magnitude * math.Exp(-(dx*dx*precisionX+de*de*precisionE)/2)
			k.SetSym(i, j, value)
			kernelSlopes.Set(i, j, -value*de*precisionE)
			kernelSlopes.Set(j, i, value*de*precisionE)
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
	for _, logParameter := range params[:3] {
		parts[3] -= prior.LogProb(math.Exp(logParameter))
	}
	var derivatives mat.VecDense // ∂f/∂e of each row
	derivatives.MulVec(kernelSlopes, &alpha)
	// slopes holds the derivatives of part 2 by ∂f/∂e. It overwrites derivatives.
	slopes := derivatives.RawVector().Data
	for i, d := range slopes {
		d -= gpiSmoothing
		weight, smooth := 1., math.Log(d*d+gpiSmoothing)/2
		parts[2] += smooth
		if d < 0 {
			parts[2] += gpiBarrier * (smooth - math.Log(gpiSmoothing)/2)
			weight += gpiBarrier
		}
		slopes[i] = weight * d / (d*d + gpiSmoothing)
	}
	if gradient == nil {
		return parts, nil
	}
	var inverse mat.SymDense
	if err := chol.InverseTo(&inverse); err != nil {
		return parts, err
	}
	// u is K⁻¹ times the derivative of parts[2] with respect to alpha, where alpha = K⁻¹y.
	var alphaGradient, u mat.VecDense
	alphaGradient.MulVec(kernelSlopes.T(), &derivatives)
	if err := chol.SolveVecTo(&u, &alphaGradient); err != nil {
		return parts, err
	}
	solved := u.RawVector().Data
	copy(gradient, make([]float64, 3))
	copy(gradient[3:], e)
	for i := range n {
		// On the diagonal, the kernel depends only on the magnitude.
		gradient[0] += 2 * magnitude * ((inverse.At(i, i)-a[i]*a[i])/2 - solved[i]*a[i])
		values, inverses, changes := k.RawSymmetric().Data[i*n:(i+1)*n], inverse.RawSymmetric().Data[i*n:(i+1)*n], kernelSlopes.RawRowView(i)
		for j := i + 1; j < n; j++ {
			value, slope := values[j], changes[j]
			dx, de := x[i]-x[j], e[i]-e[j]
			scaledDistance := de * de * precisionE
			// Rows i and j contribute through k and through ∂k/∂e, which changes its sign
			// when i and j swap. One step adds the contributions of (i, j) and (j, i).
			kernelGradient := inverses[j] - a[i]*a[j] - solved[i]*a[j] - solved[j]*a[i]
			slopeGradient := slopes[i]*a[j] - slopes[j]*a[i]
			gradient[0] += 2 * (kernelGradient*value + slopeGradient*slope)
			gradient[1] += dx * dx * precisionX * (kernelGradient*value + slopeGradient*slope)
			gradient[2] += kernelGradient*value*scaledDistance + slopeGradient*slope*(scaledDistance-2)
			noiseGradient := kernelGradient*slope + slopeGradient*value*precisionE*(scaledDistance-1)
			gradient[3+i] += noiseGradient
			gradient[3+j] -= noiseGradient
		}
	}
	for i, logParameter := range params[:3] {
		gradient[i] -= (prior.Alpha - 1) - prior.Beta*math.Exp(logParameter)
	}
	return parts, nil
}

// regressionNoise returns the standardised residuals of a Gaussian process regression of y
// on x.
func regressionNoise(x, y []float64) ([]float64, error) {
	n := len(x)
	var noise []float64
	evidence := func(params, gradient []float64) (float64, error) {
		width, magnitude, variance := math.Exp(-2*params[0]), math.Exp(2*params[1]), math.Exp(2*params[2])
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
	params := []float64{math.Log(.4), 0, math.Log(.2)}
	if _, err := minimise(evidence, params); err != nil {
		return nil, err
	}
	if _, err := evidence(params, nil); err != nil {
		return nil, err
	}
	return zScores(noise), nil
}

// minimise returns the lowest value that L-BFGS finds from a start. It overwrites start
// with the minimiser.
func minimise(objective func(params, gradient []float64) (float64, error), start []float64) (float64, error) {
	last, gradient := []float64(nil), make([]float64, len(start))
	var value float64
	evaluate := func(params []float64) float64 {
		if !slices.Equal(params, last) {
			var err error
			if value, err = objective(params, gradient); err != nil {
				value = math.Inf(1)
			}
			last = slices.Clone(params)
		}
		return value
	}
	if first := evaluate(start); math.IsInf(first, 0) || math.IsNaN(first) {
		return 0, errSingular
	}
	result, err := optimize.Minimize(optimize.Problem{
		Func: evaluate,
		Grad: func(dst, params []float64) {
			evaluate(params)
			copy(dst, gradient)
		},
	}, start, &optimize.Settings{
		MajorIterations: 300, GradientThreshold: 1e-3,
		Converger: &optimize.FunctionConverge{Absolute: 1e-3, Iterations: 10},
	}, &optimize.LBFGS{})
	if result == nil {
		return 0, err
	}
	// A line search that makes no further progress counts as a normal end.
	copy(start, result.X)
	return result.F, nil
}
