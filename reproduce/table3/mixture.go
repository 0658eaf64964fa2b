package table3

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// gaussians is a mixture of one-dimensional Gaussians.
type gaussians struct {
	weights, means, variances []float64
	densities                 [][]float64 // density of each component at each row
}

// mixtureLength returns the length of a description of x by a mixture of Gaussians. It
// takes the minimum over the number of components.
//
// Reference: Figueiredo & Jain (2002), Unsupervised learning of finite mixture models. The
// length for k components and n rows is Σ log w + 3/2·k·log n minus the log-likelihood, as
// in the authors' code. The fit starts with at most 50 components, centred on the first
// rows of order.
func mixtureLength(x []float64, order []int) float64 {
	const maxComponents, tolerance = 50, 1e-9
	variance := stat.Variance(x, nil)
	var g gaussians
	for _, i := range order[:min(maxComponents, len(x))] {
		g.weights, g.means, g.variances = append(g.weights, 1), append(g.means, x[i]), append(g.variances, variance/10)
		g.densities = append(g.densities, make([]float64, len(x)))
		g.updateDensities(len(g.means)-1, x)
	}
	g.normalise()
	shortest := math.Inf(1)
	for {
		before := g.logLikelihood()
		for {
			for c := 0; c < len(g.weights); {
				if g.update(c, x) {
					c++
				}
			}
			after := g.logLikelihood()
			shortest = min(shortest, g.length(after, len(x)))
			if math.Abs((after-before)/before) < tolerance {
				break
			}
			before = after
		}
		if len(g.weights) == 1 {
			return shortest
		}
		g.removeComponent(floats.MinIdx(g.weights))
		shortest = min(shortest, g.length(g.logLikelihood(), len(x)))
	}
}

// update refits one component to the rows that it explains. A component costs two
// parameters, so update removes it if it explains at most one row and is not the only
// component. The result reports whether the component remains.
func (g *gaussians) update(c int, x []float64) bool {
	const ridge = 1e-4
	totals := g.totals()
	var count, sum, squares float64
	for i, v := range x {
		responsibility := g.weights[c] * g.densities[c][i] / totals[i]
		count, sum, squares = count+responsibility, sum+responsibility*v, squares+responsibility*v*v
	}
	if count <= 1 && len(g.weights) > 1 {
		g.removeComponent(c)
		return false
	}
	g.means[c] = sum / count
	g.variances[c] = squares/count - g.means[c]*g.means[c] + ridge
	g.weights[c] = (count - 1) / float64(len(x))
	g.normalise()
	g.updateDensities(c, x)
	return true
}

func (g *gaussians) normalise() { floats.Scale(1/floats.Sum(g.weights), g.weights) }

func (g *gaussians) updateDensities(c int, x []float64) {
	scale := 1 / math.Sqrt(2*math.Pi*g.variances[c])
	for i, v := range x {
		d := v - g.means[c]
		g.densities[c][i] = scale * math.Exp(-d*d/(2*g.variances[c]))
	}
}

func (g *gaussians) removeComponent(c int) {
	g.weights, g.means, g.variances = slices.Delete(g.weights, c, c+1), slices.Delete(g.means, c, c+1), slices.Delete(g.variances, c, c+1)
	g.densities = slices.Delete(g.densities, c, c+1)
	g.normalise()
}

// totals returns the density of the mixture at each row.
func (g *gaussians) totals() []float64 {
	out := make([]float64, len(g.densities[0]))
	floats.AddConst(1e-300, out)
	for c, d := range g.densities {
		floats.AddScaled(out, g.weights[c], d)
	}
	return out
}

func (g *gaussians) logLikelihood() float64 {
	var sum float64
	for _, t := range g.totals() {
		sum += math.Log(t)
	}
	return sum
}

func (g *gaussians) length(logLikelihood float64, n int) float64 {
	length := 1.5*float64(len(g.weights))*math.Log(float64(n)) - logLikelihood
	for _, w := range g.weights {
		length += math.Log(w)
	}
	return length
}
