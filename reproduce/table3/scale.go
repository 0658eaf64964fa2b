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

// standardised scales values to mean 0 and variance 1. The variance has the denominator n.
func standardised(v []float64) []float64 {
	mean, variance := stat.PopMeanVariance(v, nil)
	out := slices.Clone(v)
	floats.AddConst(-mean, out)
	floats.Scale(1/math.Sqrt(variance), out)
	return out
}

// minMaxScaled scales values to [0, 1].
func minMaxScaled(v []float64) []float64 {
	low, high := floats.Min(v), floats.Max(v)
	out := slices.Clone(v)
	floats.AddConst(-low, out)
	floats.Scale(1/(high-low), out)
	return out
}

// normalScores replaces the n values by standard normal quantiles of rank/(n+1). Equal
// values get a random order.
func normalScores(v []float64, rng *rand.Rand) []float64 {
	out := make([]float64, len(v))
	for rank, i := range rankOrder(v, rng) {
		out[i] = distuv.UnitNormal.Quantile(float64(rank+1) / float64(len(v)+1))
	}
	return out
}

// rankOrder returns the indices that sort the values. Equal values get a random order.
func rankOrder(v []float64, rng *rand.Rand) []int {
	order := rng.Perm(len(v))
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(v[i], v[j]) })
	return order
}

// subsample draws at most limit rows of a pair, without replacement.
func subsample(x, y []float64, limit int, rng *rand.Rand) (u, v []float64) {
	if len(x) <= limit {
		return x, y
	}
	for _, i := range rng.Perm(len(x))[:limit] {
		u, v = append(u, x[i]), append(v, y[i])
	}
	return u, v
}

// quantileOf interpolates a quantile of sorted values linearly.
func quantileOf(sorted []float64, level float64) float64 {
	position := level * float64(len(sorted)-1)
	i := min(int(position), len(sorted)-2)
	return sorted[i] + (position-float64(i))*(sorted[i+1]-sorted[i])
}
