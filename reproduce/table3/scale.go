package table3

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// standardised has mean 0 and variance 1, with n in the variance's denominator.
func standardised(v []float64) []float64 {
	mean, variance := stat.PopMeanVariance(v, nil)
	out := slices.Clone(v)
	floats.AddConst(-mean, out)
	floats.Scale(1/math.Sqrt(variance), out)
	return out
}

// unit lies in [0, 1].
func unit(v []float64) []float64 {
	low, high := floats.Min(v), floats.Max(v)
	out := slices.Clone(v)
	floats.AddConst(-low, out)
	floats.Scale(1/(high-low), out)
	return out
}

// normalScores are standard normal quantiles of rank/(n+1). Equal values are
// ranked at random.
func normalScores(v []float64, rng *rand.Rand) []float64 {
	out := make([]float64, len(v))
	for rank, i := range ordered(v, rng) {
		out[i] = distuv.UnitNormal.Quantile(float64(rank+1) / float64(len(v)+1))
	}
	return out
}

// ordered is the order of the values, equal ones at random.
func ordered(v []float64, rng *rand.Rand) []int {
	order := rng.Perm(len(v))
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(v[i], v[j]) })
	return order
}

// some are at most so many rows of a pair, drawn without replacement.
func some(x, y []float64, most int, rng *rand.Rand) (u, v []float64) {
	if len(x) <= most {
		return x, y
	}
	for _, i := range rng.Perm(len(x))[:most] {
		u, v = append(u, x[i]), append(v, y[i])
	}
	return u, v
}

// quantileOf is a quantile of sorted values, linear between neighbours.
func quantileOf(sorted []float64, level float64) float64 {
	at := level * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-2)
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
