package hypothesis

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Hypergeometric returns the probability that at most k marked items are drawn. The draws are
// without replacement from total items, of which marked items are marked.
func Hypergeometric(k, draws, marked, total int) float64 {
	minMarked, maxMarked := max(0, draws-(total-marked)), min(draws, marked)
	switch {
	case k < minMarked:
		return 0
	case k >= maxMarked:
		return 1
	}
	d, m, rest := float64(draws), float64(marked), float64(total-marked)
	probability := func(i float64) float64 {
		return math.Exp(logChoose(m, i) + logChoose(rest, d-i) - logChoose(m+rest, d))
	}
	var sum float64
	// Sum the smaller tail, from the middle outwards.
	if float64(k) <= d*m/(m+rest) {
		for i, p := float64(k), probability(float64(k)); p > sum*1e-17; i-- {
			sum += p
			p *= i * (rest - d + i) / ((m - i + 1) * (d - i + 1))
		}
		return min(1, sum)
	}
	for i, p := float64(k+1), probability(float64(k+1)); p > sum*1e-17; i++ {
		sum += p
		p *= (m - i) * (d - i) / ((i + 1) * (rest - d + i + 1))
	}
	return max(0, 1-sum)
}

// logChoose returns the logarithm of the binomial coefficient of n and k.
func logChoose(n, k float64) float64 { return -math.Log(n+1) - mathext.Lbeta(n-k+1, k+1) }
