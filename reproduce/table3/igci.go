package table3

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// igci returns an information-geometric score by entropies. The cause is the variable of
// larger entropy relative to a reference measure. The scaling sets this measure: uniform on
// [0, 1] or standard normal.
//
// References: Daniušis et al. (2010), Inferring deterministic causal relations; Janzing et
// al. (2012). As in the authors' estimator, gaps of zero between neighbouring values are
// skipped.
func igci(scale func([]float64) []float64) func(x, y []float64, rng *rand.Rand) (float64, error) {
	return func(x, y []float64, _ *rand.Rand) (float64, error) {
		return spacingEntropy(scale(x)) - spacingEntropy(scale(y)), nil
	}
}

// spacingEntropy estimates the entropy from the gaps between neighbouring values.
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
