package quantile

import (
	"cmp"
	"math/bits"
	"slices"
)

// Select returns the element that would have index n after sorting s. It reorders s, so that
// smaller elements come before index n and larger ones after it. s must not contain NaN.
func Select[T cmp.Ordered](s []T, n int) T {
	if n < 2 {
		for i := range n + 1 {
			smallestFirst(s[i:])
		}
		return s[n]
	}
	lo, hi := 0, len(s)
	// After too many bad pivots, the remaining elements are sorted, which bounds the run time.
	for rounds := 2 * bits.Len(uint(len(s))); hi-lo > 16 && rounds > 0; rounds-- {
		pivot := median(s[lo], s[lo+(hi-lo)/2], s[hi-1])
		// Three-way partition: s[lo:i] < pivot, s[i:k] = pivot, s[k:hi] > pivot.
		i, j, k := lo, lo, hi
		for j < k {
			switch v := s[j]; {
			case v < pivot:
				s[i], s[j] = v, s[i]
				i++
				j++
			case v > pivot:
				k--
				s[j], s[k] = s[k], v
			default:
				j++
			}
		}
		switch {
		case n < i:
			hi = i
		case n >= k:
			lo = k
		default:
			return pivot
		}
	}
	slices.Sort(s[lo:hi])
	return s[n]
}

// smallestFirst swaps the smallest element to the front.
func smallestFirst[T cmp.Ordered](s []T) {
	smallest := 0
	for i, v := range s {
		if v < s[smallest] {
			smallest = i
		}
	}
	s[0], s[smallest] = s[smallest], s[0]
}

// median returns the median of three elements.
func median[T cmp.Ordered](a, b, c T) T {
	return max(min(a, b), min(max(a, b), c))
}
