package baselines

import (
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

// search is what is known of the nearest training rows of one row.
type search struct {
	*neighbours
	k, room int
	x       []float32 // the row, scaled
	norm    float64   // of the row less mean; NaN or Inf where it holds one
	own     int       // the training row that does not count, or −1
	// cut is no less than the k-th smallest squared distance so far.
	cut   float64
	found []candidate // by training row, at most room
	work  *scratch
}

// candidate is a training row that may be among the nearest.
type candidate struct {
	squared float64 // distance
	row     int32
	exact   bool
}

// scratch is the work space of one goroutine.
type scratch struct {
	row       []float32
	order     []float64
	distances []float64
	near      []neighbour
}

type scratches []scratch

func newScratch(h int) scratches {
	s := make(scratches, runtime.GOMAXPROCS(0))
	for i := range s {
		s[i].row = make([]float32, h)
	}
	return s
}

// each calls do for every r below n, several at a time.
func (s scratches) each(n int, do func(r int, w *scratch)) {
	workers := min(len(s), n)
	if workers < 2 {
		for r := range n {
			do(r, &s[0])
		}
		return
	}
	var g errgroup.Group
	for w := range workers {
		g.Go(func() error {
			for r := w; r < n; r += workers {
				do(r, &s[w])
			}
			return nil
		})
	}
	_ = g.Wait() // none of them fails
}

// begin looks for the neighbours of x, which is centred less mean.
func (s *search) begin(x, centred []float32) {
	var sum float64
	for _, v := range centred {
		sum += float64(v) * float64(v)
	}
	s.x, s.norm, s.own, s.cut, s.found = x, math.Sqrt(sum), -1, math.Inf(1), s.found[:0]
}

func (s *search) finite() bool { return !math.IsNaN(s.norm) && !math.IsInf(s.norm, 0) }

// maxProduct bounds products of float32 that cannot overflow.
const maxProduct = 1e37

// scan looks at the products of the row with training rows, from the one called
// first.
func (s *search) scan(w *scratch, products []float32, first int) {
	if !s.finite() {
		return
	}
	squares := s.squares[first : first+len(products)]
	limit := s.limit()
	for j, p := range products {
		v := squares[j] - 2*float64(p)
		if v > limit || first+j == s.own {
			continue
		}
		c := candidate{squared: v + s.norm*s.norm, row: int32(first + j)}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			c.squared, c.exact = s.exact(first+j, w), true
		}
		s.found = append(s.found, c)
		if len(s.found) == s.room {
			s.narrow(w)
			if len(s.found) > s.room-s.room/4 {
				s.resolve(w)
			}
			limit = s.limit()
		}
	}
}

// limit is what a squared distance, less that of the row to the mean, must not
// exceed for its training row to be looked at.
func (s *search) limit() float64 {
	if s.norm*s.largest > maxProduct {
		return math.Inf(1)
	}
	return s.cut + s.slack*(s.norm+s.largest)*(s.norm+s.largest) - s.norm*s.norm
}

// narrow leaves out candidates that k others are surely nearer than.
func (s *search) narrow(w *scratch) {
	if len(s.found) < s.k {
		return
	}
	w.order = w.order[:0]
	for _, c := range s.found {
		w.order = append(w.order, c.squared+s.bound(c))
	}
	s.cut = min(s.cut, selectNth(w.order, s.k-1))
	s.found = slices.DeleteFunc(s.found, func(c candidate) bool { return c.squared-s.bound(c) > s.cut })
}

// resolve leaves the k nearest candidates, the first of those that are equally
// far. It is for training rows so alike that rounding hides which are nearest.
func (s *search) resolve(w *scratch) {
	if len(s.found) <= s.k {
		return
	}
	w.order = w.order[:0]
	for i, c := range s.found {
		if !c.exact {
			s.found[i] = candidate{s.exact(int(c.row), w), c.row, true}
		}
		w.order = append(w.order, s.found[i].squared)
	}
	s.cut = min(s.cut, selectNth(w.order, s.k-1))
	equal := s.k
	for _, c := range s.found {
		if c.squared < s.cut {
			equal--
		}
	}
	s.found = slices.DeleteFunc(s.found, func(c candidate) bool {
		if c.squared == s.cut {
			equal--
			return equal < 0
		}
		return c.squared > s.cut
	})
}

// bound is how far the squared distance of a candidate may be from the truth.
func (s *search) bound(c candidate) float64 {
	if c.exact {
		return 0
	}
	r := s.norm + math.Sqrt(s.squares[c.row])
	return s.slack * r * r
}

// exact is the squared distance to training row j.
func (s *search) exact(j int, w *scratch) float64 {
	var sum float64
	for i, v := range s.row(w.row, j) {
		d := float64(s.x[i]) - float64(v)
		sum += d * d
	}
	return sum
}
