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
	densities                 [][]float64 // of each component, on each row
}

// describeMixture is the length of a description of x by a mixture of Gaussians,
// the least over their number.
//
// Reference: Figueiredo & Jain (2002), Unsupervised learning of finite mixture
// models. The length is that of their code, Σ log w + 3/2·k·log n less the
// log-likelihood of k components, and so is the start: fifty, on the rows that
// order names first.
func describeMixture(x []float64, order []int) float64 {
	const most, tolerance = 50, 1e-9
	variance := stat.Variance(x, nil)
	var g gaussians
	for _, i := range order[:min(most, len(x))] {
		g.weights, g.means, g.variances = append(g.weights, 1), append(g.means, x[i]), append(g.variances, variance/10)
		g.densities = append(g.densities, make([]float64, len(x)))
		g.weigh(len(g.means)-1, x)
	}
	g.normalise()
	least := math.Inf(1)
	for {
		before := g.logLikelihood()
		for {
			for c := 0; c < len(g.weights); {
				if g.update(c, x) {
					c++
				}
			}
			after := g.logLikelihood()
			least = min(least, g.length(after, len(x)))
			if math.Abs((after-before)/before) < tolerance {
				break
			}
			before = after
		}
		if len(g.weights) == 1 {
			return least
		}
		g.drop(floats.MinIdx(g.weights))
		least = min(least, g.length(g.logLikelihood(), len(x)))
	}
}

// update moves one component to the rows that it explains, and drops it where
// those are no more than its two parameters cost. It says whether it stays.
func (g *gaussians) update(c int, x []float64) bool {
	const ridge = 1e-4
	totals := g.totals()
	var count, sum, squares float64
	for i, v := range x {
		share := g.weights[c] * g.densities[c][i] / totals[i]
		count, sum, squares = count+share, sum+share*v, squares+share*v*v
	}
	if count <= 1 && len(g.weights) > 1 {
		g.drop(c)
		return false
	}
	g.means[c] = sum / count
	g.variances[c] = squares/count - g.means[c]*g.means[c] + ridge
	g.weights[c] = (count - 1) / float64(len(x))
	g.normalise()
	g.weigh(c, x)
	return true
}

func (g *gaussians) normalise() { floats.Scale(1/floats.Sum(g.weights), g.weights) }

func (g *gaussians) weigh(c int, x []float64) {
	scale := 1 / math.Sqrt(2*math.Pi*g.variances[c])
	for i, v := range x {
		d := v - g.means[c]
		g.densities[c][i] = scale * math.Exp(-d*d/(2*g.variances[c]))
	}
}

func (g *gaussians) drop(c int) {
	g.weights, g.means, g.variances = slices.Delete(g.weights, c, c+1), slices.Delete(g.means, c, c+1), slices.Delete(g.variances, c, c+1)
	g.densities = slices.Delete(g.densities, c, c+1)
	g.normalise()
}

// totals are the mixture's densities.
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
