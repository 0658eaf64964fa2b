package hypothesis

import (
	"cmp"
	"slices"
)

// Unlikely bounds the probability that an evaluation names a part of the rows as different
// from the others although none is.
const Unlikely = .05

// Holm adjusts the p-values of several tests for their number: with probability 1−α no true
// hypothesis gets an adjusted p-value of α or less, however the tests depend on each other.
//
// Reference: Holm (1979), A Simple Sequentially Rejective Multiple Test Procedure.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	adjusted := make([]float64, len(p))
	var largest float64
	for i, k := range order {
		largest = max(largest, min(1, float64(len(p)-i)*p[k]))
		adjusted[k] = largest
	}
	return adjusted
}
