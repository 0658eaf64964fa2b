package baselines

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
)

// Relative width of the interval that a squared distance must be known to lie
// in, half of it for the distance.
const neighboursTolerance = 1e-5

// each calls found with every row's distances to its nearest (rank 0), second
// nearest and so on, for the ranks asked for; the slice is reused. Calls come
// from several goroutines.
func (n *neighbours) each(ctx context.Context, x blas32.General, ranks []int, found func(i int, distances []float64)) error {
	rising := slices.Sorted(slices.Values(ranks))
	return n.search(ctx, x, rising[len(rising)-1]+1, false, func(i int, s *search) {
		w := s.work
		w.distances = slices.Grow(w.distances[:0], len(ranks))[:len(ranks)]
		s.find(ranks, rising)
		found(i, w.distances)
	})
}

// find sets the distances of the given ranks.
func (s *search) find(ranks, rising []int) {
	w := s.work
	if !s.finite() {
		for k := range w.distances {
			w.distances[k] = s.norm
		}
		return
	}
	w.order = w.order[:0]
	for _, c := range s.found {
		w.order = append(w.order, c.squared)
	}
	// In rising order, every selection leaves what the next has to look at.
	done := 0
	for _, rank := range rising {
		v := selectNth(w.order[done:], rank-done)
		done = rank
		d := math.Sqrt(s.nth(rank, v))
		for k := range ranks {
			if ranks[k] == rank {
				w.distances[k] = d
			}
		}
	}
}

// nth is the squared distance to the neighbour of some rank, which is
// approximately v.
func (s *search) nth(rank int, v float64) float64 {
	if widest := s.slack * (s.norm + s.largest) * (s.norm + s.largest); rank > 0 && 2*widest <= neighboursTolerance*(v-widest) {
		return v
	}
	// At least rank+1 rows are approximately no further than v, and all but
	// rank no nearer: the true distance is below the largest upper bound of
	// the former and above the smallest lower bound of the latter.
	low, high := math.Inf(1), math.Inf(-1)
	for _, c := range s.found {
		e := s.bound(c)
		if c.squared <= v {
			high = max(high, c.squared+e)
		}
		if c.squared >= v {
			low = min(low, c.squared-e)
		}
	}
	if rank > 0 && high-low <= neighboursTolerance*low {
		return v
	}
	nearer := 0
	var close []float64
	for _, c := range s.found {
		e := s.bound(c)
		switch {
		case c.squared+e < low:
			nearer++
		case c.squared-e <= high:
			if !c.exact {
				c.squared = s.exact(int(c.row), s.work)
			}
			close = append(close, c.squared)
		}
	}
	if len(close) == 0 {
		return v
	}
	return selectNth(close, min(max(rank-nearer, 0), len(close)-1))
}

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
	return n.search(ctx, x, k, own, func(i int, s *search) {
		if !s.finite() {
			found(i, nil)
			return
		}
		found(i, s.nearestRows(k))
	})
}

func (s *search) nearestRows(k int) []neighbour {
	near := s.work.near[:0]
	for _, c := range s.found {
		if !c.exact {
			c.squared = s.exact(int(c.row), s.work)
		}
		near = append(near, neighbour{int(c.row), c.squared})
	}
	s.work.near = near
	slices.SortFunc(near, func(a, b neighbour) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), a.row-b.row)
	})
	near = near[:min(k, len(near))]
	for j := range near {
		near[j].distance = math.Sqrt(near[j].distance)
	}
	return near
}
