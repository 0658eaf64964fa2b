package table3

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// recipe is sqr for m = 5 as the paper's authors train it: five random halves, on
// each a network of 64 hidden units a direction, 3000 steps of Adam on all rows at
// once with fresh levels, and a rate of 1e-4 that falls by a hundredth whenever the
// loss on the other half has not fallen for three steps.
//
// In their released script the rate of y → x follows the loss with which that
// network would predict y from x, and not x from y. With released set this does
// too: a rate that falls without reason favours whatever comes first, which in
// their data is the cause.
func recipe(released bool) func(x, y []float64, rng *rand.Rand) (float64, error) {
	return func(x, y []float64, rng *rand.Rand) (float64, error) {
		x, y = some(x, y, recipeRows, rng)
		x, y = normalScores(x, rng), normalScores(y, rng)
		pool := pools()[2].of(len(x))
		var score float64
		for range recipeHalves {
			order := rng.Perm(len(x))
			fit, test := order[:len(x)/2], order[len(x)/2:]
			causes, effects := sample{pick(x, fit), pick(y, fit)}, sample{pick(x, test), pick(y, test)}
			turnedFit, turnedTest := sample{causes.y, causes.x}, sample{effects.y, effects.x}
			watched := turnedTest
			if released {
				watched = effects
			}
			forward := trainRecipe(causes, effects, pool, rng)
			backward := trainRecipe(turnedFit, watched, pool, rng)
			score += backward.codeLength(turnedTest, pool) - forward.codeLength(effects, pool)
		}
		return score / recipeHalves, nil
	}
}

const (
	recipeRows   = 500 // at most
	recipeHalves = 5
	recipeSteps  = 3000
	recipeUnits  = 64
)

// sample is rows of a cause and its effect.
type sample struct{ x, y []float64 }

// sorted has the rows by rising x, so that a hidden unit is active on one side of
// a row.
func (s sample) sorted() sample {
	order := experiment.Indices(len(s.x))
	slices.SortFunc(order, func(i, j int) int {
		if s.x[i] < s.x[j] {
			return -1
		}
		return 1
	})
	return sample{pick(s.x, order), pick(s.y, order)}
}

// shallow is a network of x and a level: an output's bias, and of each hidden unit
// the weights of x and of the level, the bias, and the output's weight.
type shallow []float64

func (n shallow) unit(k int) (ofX, ofLevel, bias, out float64) {
	p := n[1+4*k:]
	return p[0], p[1], p[2], p[3]
}

// trainRecipe trains on some rows, at a rate that follows the loss on others.
func trainRecipe(fit, watched sample, pool pooled, rng *rand.Rand) shallow {
	fit, watched = fit.sorted(), watched.sorted()
	n := make(shallow, 1+4*recipeUnits)
	for i := range n {
		bound := 1 / math.Sqrt2
		if i%4 == 0 { // the output layer
			bound = 1 / math.Sqrt(recipeUnits)
		}
		n[i] = bound * (2*rng.Float64() - 1)
	}
	const decay, first, second = 1e-4, .9, .999
	rate, best, waited := 1e-4, math.Inf(1), 0
	mean, square, gradient := make([]float64, len(n)), make([]float64, len(n)), make([]float64, len(n))
	levels, out := make([]float64, len(fit.x)), make([]float64, len(fit.x))
	unbias1, unbias2 := 1., 1.
	for range recipeSteps {
		for i := range levels {
			levels[i] = rng.Float64()
		}
		n.gradient(fit, levels, out, gradient)
		unbias1, unbias2 = unbias1*first, unbias2*second
		for i, g := range gradient {
			g += decay * n[i]
			mean[i] += (1 - first) * (g - mean[i])
			square[i] += (1 - second) * (g*g - square[i])
			n[i] -= rate * mean[i] / (1 - unbias1) / (math.Sqrt(square[i]/(1-unbias2)) + 1e-8)
		}
		var loss float64
		for _, tau := range pool.levels {
			loss += n.loss(watched, tau)
		}
		if waited++; loss < best-1e-10 {
			best, waited = loss, 0
		}
		// A fall of less than 1e-8 is none, as in PyTorch's ReduceLROnPlateau.
		if waited > 2 {
			if waited = 0; rate*.01 > 1e-8 {
				rate *= .99
			}
		}
	}
	return n
}

// gradient fills in that of the mean pinball loss.
func (n shallow) gradient(s sample, levels, out, gradient []float64) {
	for i := range out {
		out[i] = n[0]
	}
	for k := range recipeUnits {
		a, b, c, v := n.unit(k)
		for i, x := range s.x {
			if z := a*x + b*levels[i] + c; z > 0 {
				out[i] += v * z
			}
		}
	}
	gradient[0] = 0
	for i, y := range s.y {
		slope := -levels[i]
		if out[i] >= y {
			slope++
		}
		out[i] = slope / float64(len(s.y))
		gradient[0] += out[i]
	}
	for k := range recipeUnits {
		a, b, c, v := n.unit(k)
		var byX, byLevel, byBias, byOut float64
		for i, x := range s.x {
			if z := a*x + b*levels[i] + c; z > 0 {
				d := out[i]
				byX, byLevel, byBias, byOut = byX+d*x, byLevel+d*levels[i], byBias+d, byOut+d*z
			}
		}
		copy(gradient[1+4*k:], []float64{v * byX, v * byLevel, v * byBias, byOut})
	}
}

// loss is the mean pinball loss at a level on rows of rising x, on which the
// network is linear between the rows where a unit sets in or ends.
func (n shallow) loss(s sample, level float64) float64 {
	slopes, starts := make([]float64, len(s.x)+1), make([]float64, len(s.x)+1)
	starts[0] = n[0]
	for k := range recipeUnits {
		a, b, c, v := n.unit(k)
		c += b * level
		from, to := sort.SearchFloat64s(s.x, -c/a), len(s.x)
		if a < 0 {
			from, to = 0, from
		}
		slopes[from] += v * a
		slopes[to] -= v * a
		starts[from] += v * c
		starts[to] -= v * c
	}
	var slope, start, sum float64
	for i, x := range s.x {
		slope, start = slope+slopes[i], start+starts[i]
		sum += pinball(level, s.y[i]-slope*x-start)
	}
	return sum / float64(len(s.x))
}

// codeLength is the weighted losses of the marginal quantiles of x and of the
// conditional ones of y.
func (n shallow) codeLength(s sample, pool pooled) float64 {
	s = s.sorted()
	var length float64
	for l, tau := range pool.levels {
		marginal := quantileOf(s.x, tau)
		var own float64
		for _, v := range s.x {
			own += pinball(tau, v-marginal) / float64(len(s.x))
		}
		length += pool.weights[l] * (own + n.loss(s, tau))
	}
	return length
}
