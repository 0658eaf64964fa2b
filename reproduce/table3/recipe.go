package table3

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// recipe returns a score function that trains sqr for five levels (m = 5) like the paper's
// authors. It uses five random halves of the rows and a network of 64 hidden units for
// each direction. Training takes 3000 full-batch steps of Adam with new random levels. The
// learning rate starts at 1e-4 and falls by 1 % if the loss on the other half has not
// fallen for three steps.
//
// The authors' released script has an error. The learning rate of the network for y → x
// follows the loss on test rows in which x and y were not swapped. If released is set, this
// function repeats the error. The learning rate then falls without reason, which favours x
// as the cause. In the authors' data, x is the cause.
func recipe(released bool) func(x, y []float64, rng *rand.Rand) (float64, error) {
	return func(x, y []float64, rng *rand.Rand) (float64, error) {
		x, y = subsample(x, y, recipeRows, rng)
		x, y = normalScores(x, rng), normalScores(y, rng)
		pool := pools()[2].forRows(len(x))
		var score float64
		for range recipeHalves {
			order := rng.Perm(len(x))
			fit, test := order[:len(x)/2], order[len(x)/2:]
			fitRows, testRows := sample{selectValues(x, fit), selectValues(y, fit)}, sample{selectValues(x, test), selectValues(y, test)}
			swappedFit, swappedTest := sample{fitRows.y, fitRows.x}, sample{testRows.y, testRows.x}
			validation := swappedTest
			if released {
				validation = testRows
			}
			forward := trainRecipe(fitRows, testRows, pool, rng)
			backward := trainRecipe(swappedFit, validation, pool, rng)
			score += backward.codeLength(swappedTest, pool) - forward.codeLength(testRows, pool)
		}
		return score / recipeHalves, nil
	}
}

const (
	recipeRows   = 500 // maximum number of rows
	recipeHalves = 5
	recipeSteps  = 3000
	recipeUnits  = 64
)

// sample holds values of a cause x and an effect y.
type sample struct{ x, y []float64 }

// sorted returns the rows in ascending order of x. Each hidden unit is then active on a
// contiguous run of rows.
func (s sample) sorted() sample {
	order := experiment.Indices(len(s.x))
	slices.SortFunc(order, func(i, j int) int {
		if s.x[i] < s.x[j] {
			return -1
		}
		return 1
	})
	return sample{selectValues(s.x, order), selectValues(s.y, order)}
}

// shallowNet holds the parameters of a network with one hidden layer and the inputs x and
// level. The output's bias comes first. Four values follow for each hidden unit: its
// weights of x and level, its bias and its output weight.
type shallowNet []float64

func (n shallowNet) hiddenUnit(k int) (xWeight, levelWeight, bias, outWeight float64) {
	p := n[1+4*k:]
	return p[0], p[1], p[2], p[3]
}

// trainRecipe trains on the rows of fit. The learning rate follows the loss on validation.
func trainRecipe(fit, validation sample, pool levelPool, rng *rand.Rand) shallowNet {
	fit, validation = fit.sorted(), validation.sorted()
	n := make(shallowNet, 1+4*recipeUnits)
	for i := range n {
		bound := 1 / math.Sqrt2
		if i%4 == 0 { // output layer
			bound = 1 / math.Sqrt(recipeUnits)
		}
		n[i] = bound * (2*rng.Float64() - 1)
	}
	const weightDecay, beta1, beta2 = 1e-4, .9, .999
	rate, best, sinceBest := 1e-4, math.Inf(1), 0
	mean, square, gradient := make([]float64, len(n)), make([]float64, len(n)), make([]float64, len(n))
	levels, out := make([]float64, len(fit.x)), make([]float64, len(fit.x))
	beta1Power, beta2Power := 1., 1.
	for range recipeSteps {
		for i := range levels {
			levels[i] = rng.Float64()
		}
		n.gradient(fit, levels, out, gradient)
		beta1Power, beta2Power = beta1Power*beta1, beta2Power*beta2
		for i, g := range gradient {
			g += weightDecay * n[i]
			mean[i] += (1 - beta1) * (g - mean[i])
			square[i] += (1 - beta2) * (g*g - square[i])
			n[i] -= rate * mean[i] / (1 - beta1Power) / (math.Sqrt(square[i]/(1-beta2Power)) + 1e-8)
		}
		var loss float64
		for _, tau := range pool.levels {
			loss += n.loss(validation, tau)
		}
		if sinceBest++; loss < best-1e-10 {
			best, sinceBest = loss, 0
		}
		// Changes of the rate below 1e-8 are ignored, as in PyTorch's ReduceLROnPlateau.
		if sinceBest > 2 {
			if sinceBest = 0; rate*.01 > 1e-8 {
				rate *= .99
			}
		}
	}
	return n
}

// gradient fills the last argument with the gradient of the mean pinball loss.
func (n shallowNet) gradient(s sample, levels, out, gradient []float64) {
	for i := range out {
		out[i] = n[0]
	}
	for k := range recipeUnits {
		a, b, c, v := n.hiddenUnit(k)
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
		a, b, c, v := n.hiddenUnit(k)
		var gradX, gradLevel, gradBias, gradOut float64
		for i, x := range s.x {
			if z := a*x + b*levels[i] + c; z > 0 {
				d := out[i]
				gradX, gradLevel, gradBias, gradOut = gradX+d*x, gradLevel+d*levels[i], gradBias+d, gradOut+d*z
			}
		}
		copy(gradient[1+4*k:], []float64{v * gradX, v * gradLevel, v * gradBias, gradOut})
	}
}

// loss returns the mean pinball loss at one level. The rows must have ascending x. The
// network is piecewise linear in x, so cumulative sums over the kinks give all predictions.
func (n shallowNet) loss(s sample, level float64) float64 {
	slopes, starts := make([]float64, len(s.x)+1), make([]float64, len(s.x)+1)
	starts[0] = n[0]
	for k := range recipeUnits {
		a, b, c, v := n.hiddenUnit(k)
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

// codeLength returns a weighted sum over the levels. Each term adds the pinball loss of the
// marginal quantile of x and the loss of the network's quantile of y given x.
func (n shallowNet) codeLength(s sample, pool levelPool) float64 {
	s = s.sorted()
	var length float64
	for l, tau := range pool.levels {
		marginal := quantileOf(s.x, tau)
		var marginalLoss float64
		for _, v := range s.x {
			marginalLoss += pinball(tau, v-marginal) / float64(len(s.x))
		}
		length += pool.weights[l] * (marginalLoss + n.loss(s, tau))
	}
	return length
}
