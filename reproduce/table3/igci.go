package table3

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// igci is information-geometric causal inference by entropies: the cause is the
// variable of larger entropy, relative to a reference measure that scaling sets,
// uniform on [0, 1] or the standard normal.
//
// Reference: Daniušis et al. (2010), Inferring deterministic causal relations;
// Janzing et al. (2012). The estimator is the authors', in which the log of a gap
// of zero counts as zero.
func igci(scale func([]float64) []float64) func(x, y []float64, rng *rand.Rand) (float64, error) {
	return func(x, y []float64, _ *rand.Rand) (float64, error) {
		return spacingEntropy(scale(x)) - spacingEntropy(scale(y)), nil
	}
}

// spacingEntropy estimates entropy by the gaps between neighbouring values.
func spacingEntropy(v []float64) float64 {
	sorted := slices.Sorted(slices.Values(v))
	var sum float64
	for i, b := range sorted[1:] {
		if gap := b - sorted[i]; gap > 0 {
			sum += math.Log(gap)
		}
	}
	n := float64(len(v))
	return sum/(n-1) + mathext.Digamma(n) - mathext.Digamma(1)
}
