package hypothesis

import (
	"cmp"
	"slices"
)

// Unlikely is the largest probability that an evaluation reports a group of rows as different
// from the other rows although no group differs.
const Unlikely = .05

// Holm adjusts the p-values of several tests for their number. With probability 1−α, no true
// hypothesis gets an adjusted p-value of at most α, even if the tests depend on each other.
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
