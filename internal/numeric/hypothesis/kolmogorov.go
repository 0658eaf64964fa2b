package hypothesis

import "math"

// Kolmogorov compares two sorted samples. It returns the largest distance between their
// distribution functions. It also returns the approximate probability of a distance at least
// this large if both samples come from the same distribution. The approximation is the limit
// for many rows. Ties can only make the probability larger.
//
// References: Smirnov (1939); Hodges (1958), The Significance Probability of the
// Smirnov Two-Sample Test.
func Kolmogorov(a, b []float64) (distance, probability float64) {
	if len(a) == 0 || len(b) == 0 {
		return math.NaN(), math.NaN()
	}
	n, m := float64(len(a)), float64(len(b))
	for i, j := 0, 0; i < len(a) && j < len(b); {
		value := min(a[i], b[j])
		for i < len(a) && a[i] == value {
			i++
		}
		for j < len(b) && b[j] == value {
			j++
		}
		distance = max(distance, math.Abs(float64(i)/n-float64(j)/m))
	}
	return distance, brownianTail(distance * math.Sqrt(n*m/(n+m)))
}

// brownianTail returns the probability that the supremum of the absolute Brownian bridge
// exceeds x.
func brownianTail(x float64) float64 {
	var sum float64
	if x < 1 {
		if x == 0 {
			return 1
		}
		for k := 1.0; k < 20; k += 2 {
			sum += math.Exp(-k * k * math.Pi * math.Pi / (8 * x * x))
		}
		return 1 - math.Sqrt(2*math.Pi)/x*sum
	}
	for k, sign := 1.0, 1.0; k < 20; k, sign = k+1, -sign {
		sum += sign * math.Exp(-2*k*k*x*x)
	}
	return 2 * sum
}
