package baselines

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
)

// neighbour is a training row and how far it is.
type neighbour struct {
	row      int
	distance float64
}

// nearest calls found with the k nearest training rows of every row of x,
// nearest first; the slice is reused, and empty for a row that holds NaN or Inf.
// own says that x are the training rows, none of which is its own neighbour.
// Calls come from several goroutines.
func (n *neighbours) nearest(ctx context.Context, x blas32.General, k int, own bool, found func(i int, near []neighbour)) error {
	return n.search(ctx, x, func(i int, s *search) {
		if !s.finite() {
			found(i, nil)
			return
		}
		if own {
			s.squared[i] = math.Inf(1)
		}
		found(i, s.nearestRows(k))
	})
}

func (s *search) nearestRows(k int) []neighbour {
	copy(s.order, s.squared)
	v := selectNth(s.order, k-1)
	// k rows are no further than this, so that none further is among them.
	furthest := 0.
	for j, d := range s.squared {
		if d <= v {
			furthest = max(furthest, d+s.bound(j))
		}
	}
	s.near = s.near[:0]
	for j, d := range s.squared {
		if d-s.bound(j) <= furthest && !math.IsInf(d, 1) {
			s.near = append(s.near, neighbour{j, s.exact(s.x, j)})
		}
	}
	slices.SortFunc(s.near, func(a, b neighbour) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), a.row-b.row)
	})
	near := s.near[:min(k, len(s.near))]
	for j := range near {
		near[j].distance = math.Sqrt(near[j].distance)
	}
	return near
}
