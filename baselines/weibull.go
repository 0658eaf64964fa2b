package baselines

import (
	"math"
	"slices"
)

// weibull measures how unusually large a number is. It is a Weibull distribution with two
// parameters, fitted by maximum likelihood to the largest of some numbers, after a shift that
// moves the smallest of them to translation. The libMR of OpenMax's authors does the same.
type weibull struct {
	largest float64 // largest of the numbers
	at      float64 // value of largest after the shift, at least translation
	shape   float64 // 0 if there were no numbers
	ratio   float64 // log (at/scale)^shape, with scale the other parameter
}

const (
	translation = 10_000
	// steepest is the shape for numbers that are all equal: their likelihood grows with the
	// shape without a limit.
	steepest = 1e12
)

// fitWeibull fits a distribution to the n largest numbers, or to all if they are fewer. It
// sorts numbers.
func fitWeibull(numbers []float64, n int) weibull {
	if len(numbers) == 0 {
		return weibull{at: translation}
	}
	slices.Sort(numbers)
	tail := numbers[max(0, len(numbers)-n):]
	t := weibull{largest: tail[len(tail)-1]}
	t.at = translation + t.largest - tail[0]
	logs := make([]float64, len(tail)) // logarithms of the shifted numbers relative to the largest
	var mean float64
	for i, v := range tail {
		logs[i] = t.log(v)
		mean += logs[i] / float64(len(tail))
	}
	// The likelihood is largest where this is 0. It increases with the shape k.
	derivative := func(k float64) float64 {
		var sum, weighted float64
		for _, u := range logs {
			e := math.Exp(k * u)
			sum += e
			weighted += e * u
		}
		return weighted/sum - mean - 1/k
	}
	low := float64(steepest) // a shape at which the derivative is not positive
	if mean < -1/low {
		low = -1 / mean
	}
	high := low
	for high < steepest && derivative(high) <= 0 {
		low, high = high, 2*high
	}
	for range 100 {
		middle := low + (high-low)/2
		if derivative(middle) <= 0 {
			low = middle
		} else {
			high = middle
		}
	}
	t.shape = low
	var sum float64
	for _, u := range logs {
		sum += math.Exp(t.shape * u)
	}
	t.ratio = -math.Log(sum / float64(len(logs)))
	return t
}

// log returns the logarithm of the ratio of v to the largest number, both shifted.
func (t weibull) log(v float64) float64 { return math.Log1p((v - t.largest) / t.at) }

// probability returns the probability of a number below v, or 1 if there were no numbers.
func (t weibull) probability(v float64) float64 {
	switch {
	case t.shape == 0:
		return 1
	case v-t.largest <= -t.at:
		return 0
	}
	return -math.Expm1(-math.Exp(t.shape*t.log(v) + t.ratio))
}
