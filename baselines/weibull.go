package baselines

import (
	"math"
	"slices"
)

// weibull says how unusually large a number is among others: a Weibull distribution with
// two parameters, fitted by maximum likelihood to the largest of some numbers after these
// are moved so that the least of them is at translation: what the libMR of OpenMax's
// authors does.
type weibull struct {
	largest float64 // of the numbers
	at      float64 // where it is moved to, translation or above
	shape   float64 // 0 where there were no numbers
	ratio   float64 // log (at/scale)^shape, with scale the other parameter
}

const (
	translation = 10_000
	// The shape of numbers that are all alike, which no finite one fits best.
	steepest = 1e12
)

// fitWeibull fits to the largest n of numbers, or all if they are fewer. It
// sorts them.
func fitWeibull(numbers []float64, n int) weibull {
	if len(numbers) == 0 {
		return weibull{at: translation}
	}
	slices.Sort(numbers)
	tail := numbers[max(0, len(numbers)-n):]
	t := weibull{largest: tail[len(tail)-1]}
	t.at = translation + t.largest - tail[0]
	logs := make([]float64, len(tail)) // of the numbers as parts of the largest
	var mean float64
	for i, v := range tail {
		logs[i] = t.log(v)
		mean += logs[i] / float64(len(tail))
	}
	// The likelihood is largest where this is 0; it grows with the shape k.
	derivative := func(k float64) float64 {
		var sum, weighted float64
		for _, u := range logs {
			e := math.Exp(k * u)
			sum += e
			weighted += e * u
		}
		return weighted/sum - mean - 1/k
	}
	low := float64(steepest) // where it is below 0
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

// log is the logarithm of what v is moved to over what the largest is.
func (t weibull) log(v float64) float64 { return math.Log1p((v - t.largest) / t.at) }

// probability is that of a number below v: 1 where there were no numbers.
func (t weibull) probability(v float64) float64 {
	switch {
	case t.shape == 0:
		return 1
	case v-t.largest <= -t.at:
		return 0
	}
	return -math.Expm1(-math.Exp(t.shape*t.log(v) + t.ratio))
}
