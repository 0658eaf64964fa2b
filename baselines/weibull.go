package baselines

import (
	"math"
	"slices"
)

// weibull measures how unusually large a number is. It is a Weibull distribution with two
// parameters, a shape and a scale. It is fitted by maximum likelihood to the largest of
// some numbers. The fitted numbers are first shifted so that the smallest becomes
// minShifted, as in the libMR of OpenMax's authors.
type weibull struct {
	largest        float64 // largest of the fitted numbers
	shiftedLargest float64 // value of largest after the shift, at least minShifted
	shape          float64 // 0 if there were no numbers to fit
	ratio          float64 // log (shiftedLargest/scale)^shape, where scale is the scale parameter
}

const (
	minShifted = 10_000
	// maxShape limits the shape. If all numbers are equal, the likelihood grows with the
	// shape without a maximum.
	maxShape = 1e12
)

// fitWeibull fits a distribution to the n largest numbers, or to all if there are fewer. It
// sorts numbers in place.
func fitWeibull(numbers []float64, n int) weibull {
	if len(numbers) == 0 {
		return weibull{shiftedLargest: minShifted}
	}
	slices.Sort(numbers)
	tail := numbers[max(0, len(numbers)-n):]
	t := weibull{largest: tail[len(tail)-1]}
	t.shiftedLargest = minShifted + t.largest - tail[0]
	logs := make([]float64, len(tail)) // logarithms of the shifted numbers relative to the largest
	var mean float64
	for i, v := range tail {
		logs[i] = t.logRatio(v)
		mean += logs[i] / float64(len(tail))
	}
	// derivative is 0 at the shape k that maximises the likelihood. It increases with k.
	derivative := func(k float64) float64 {
		var sum, weighted float64
		for _, u := range logs {
			e := math.Exp(k * u)
			sum += e
			weighted += e * u
		}
		return weighted/sum - mean - 1/k
	}
	low := float64(maxShape) // a shape with a derivative of at most 0
	if mean < -1/low {
		low = -1 / mean
	}
	high := low
	for high < maxShape && derivative(high) <= 0 {
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

// logRatio returns the logarithm of v divided by the largest number, after both are
// shifted.
func (t weibull) logRatio(v float64) float64 { return math.Log1p((v - t.largest) / t.shiftedLargest) }

// probability returns the probability of a number below v, or 1 if there were no numbers to
// fit.
func (t weibull) probability(v float64) float64 {
	switch {
	case t.shape == 0:
		return 1
	case v-t.largest <= -t.shiftedLargest:
		return 0
	}
	return -math.Expm1(-math.Exp(t.shape*t.logRatio(v) + t.ratio))
}
