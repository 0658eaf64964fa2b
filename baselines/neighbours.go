package baselines

import (
	"context"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// neighbours finds the k-th nearest of a set of rows by exhaustive search.
//
// Squared distances come as ‖a‖² + ‖b‖² − 2a·b from a float32 product of centred
// rows, which cancels where a and b are close. That decides which rows can be the
// k-th nearest; among them, where the rounding matters, distances are computed
// again from differences in float64.
type neighbours struct {
	train blas32.General // n×h, contiguous
	mean  []float64      // of the rows of train, h
	norms []float64      // of the rows of train less mean, n
	// A squared distance to row j is off by slack·(‖a‖+norms[j])² at most.
	slack   float64
	largest float64 // of norms
}

func newNeighbours(train blas32.General) (*neighbours, error) {
	if err := checkRows(train, "distances"); err != nil {
		return nil, err
	}
	n := &neighbours{train: train, mean: columnMeans(train), norms: make([]float64, train.Rows)}
	for i := range n.norms {
		var s float64
		for j, v := range row(train, i) {
			c := float64(float32(float64(v) - n.mean[j]))
			s += c * c
		}
		n.norms[i] = math.Sqrt(s)
	}
	n.largest = slices.Max(n.norms)
	// The rounding of a sum of h products is below √h units as a rule (the worst
	// case is h); this is twice that, since ‖a‖‖b‖ ≤ (‖a‖+‖b‖)²/4.
	n.slack = (2 + math.Sqrt(float64(train.Cols))) / (1 << 24)
	return n, nil
}

const (
	// Training rows in one product.
	neighboursBlock = 1024
	// Products held at a time, 32 MB of them.
	neighboursRoom = 8 << 20
	// Relative width of the interval that a squared distance must be known to
	// lie in, half of it for the distance.
	neighboursTolerance = 1e-5
)

// each calls found with every row's distances to its nearest (rank 0), second
// nearest and so on, for the ranks asked for; the slice is reused. Calls come
// from several goroutines.
func (n *neighbours) each(ctx context.Context, x blas32.General, ranks []int, found func(i int, distances []float64)) error {
	return n.search(ctx, x, func(i int, s *search) {
		s.distances = slices.Grow(s.distances[:0], len(ranks))[:len(ranks)]
		s.find(ranks)
		found(i, s.distances)
	})
}

// search calls visit with every row and its approximate distances to all
// training rows. Calls come from several goroutines, each with a search of its
// own that is reused.
func (n *neighbours) search(ctx context.Context, x blas32.General, visit func(i int, s *search)) error {
	m, h := n.train.Rows, n.train.Cols
	block := min(max(neighboursRoom/m, 16), 256, max(x.Rows, 1))
	products := make([]float32, block*m)
	a := blas32.General{Cols: h, Stride: h, Data: make([]float32, block*h)}
	b := blas32.General{Cols: h, Stride: h, Data: make([]float32, min(m, neighboursBlock)*h)}
	for i := 0; i < x.Rows; i += block {
		a.Rows = min(block, x.Rows-i)
		centre(a, x, i, n.mean)
		for j := 0; j < m; j += neighboursBlock {
			if err := ctx.Err(); err != nil {
				return err
			}
			b.Rows = min(neighboursBlock, m-j)
			centre(b, n.train, j, n.mean)
			blas32.Gemm(blas.NoTrans, blas.Trans, 1, a, b, 0,
				blas32.General{Rows: a.Rows, Cols: b.Rows, Stride: m, Data: products[j:]})
		}
		workers := min(runtime.GOMAXPROCS(0), a.Rows)
		var g errgroup.Group
		for w := range workers {
			g.Go(func() error {
				s := search{neighbours: n, squared: make([]float64, m), order: make([]float64, m)}
				for r := w; r < a.Rows; r += workers {
					s.approximate(row(x, i+r), row(a, r), products[r*m:(r+1)*m])
					visit(i+r, &s)
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// centre fills c with rows of x, from the one called first, less mean.
func centre(c, x blas32.General, first int, mean []float64) {
	for i := range c.Rows {
		to := row(c, i)
		for j, v := range row(x, first+i) {
			to[j] = float32(float64(v) - mean[j])
		}
	}
}

// search is the work space of one row.
type search struct {
	*neighbours
	x         []float32
	norm      float64   // of x less mean; NaN or Inf where x holds one
	squared   []float64 // approximate squared distances, by training row
	order     []float64 // the same, partly sorted
	distances []float64
	near      []neighbour
}

// approximate begins with row x.
func (s *search) approximate(x, centred, products []float32) {
	s.x = x
	var sum float64
	for _, v := range centred {
		sum += float64(v) * float64(v)
	}
	s.norm = math.Sqrt(sum)
	if !s.finite() {
		return
	}
	for j, v := range products {
		s.squared[j] = sum + s.norms[j]*s.norms[j] - 2*float64(v)
		if math.IsNaN(s.squared[j]) || math.IsInf(s.squared[j], 0) {
			s.squared[j] = s.exact(x, j)
		}
	}
}

func (s *search) finite() bool { return !math.IsNaN(s.norm) && !math.IsInf(s.norm, 0) }

// find sets the distances of the given ranks.
func (s *search) find(ranks []int) {
	if !s.finite() {
		for k := range s.distances {
			s.distances[k] = s.norm
		}
		return
	}
	copy(s.order, s.squared)
	// In rising order, every selection leaves what the next has to look at.
	done := 0
	for _, rank := range slices.Sorted(slices.Values(ranks)) {
		v := selectNth(s.order[done:], rank-done)
		done = rank
		d := math.Sqrt(s.nth(s.x, rank, v))
		for k := range ranks {
			if ranks[k] == rank {
				s.distances[k] = d
			}
		}
	}
}

// nth is the squared distance to the neighbour of some rank, which is
// approximately v.
func (s *search) nth(x []float32, rank int, v float64) float64 {
	if widest := s.slack * (s.norm + s.largest) * (s.norm + s.largest); rank > 0 && 2*widest <= neighboursTolerance*(v-widest) {
		return v
	}
	// At least rank+1 rows are approximately no further than v, and all but
	// rank no nearer: the true distance is below the largest upper bound of
	// the former and above the smallest lower bound of the latter.
	low, high := math.Inf(1), math.Inf(-1)
	for j, d := range s.squared {
		e := s.bound(j)
		if d <= v {
			high = max(high, d+e)
		}
		if d >= v {
			low = min(low, d-e)
		}
	}
	if rank > 0 && high-low <= neighboursTolerance*low {
		return v
	}
	nearer := 0
	var candidates []float64
	for j, d := range s.squared {
		e := s.bound(j)
		switch {
		case d+e < low:
			nearer++
		case d-e <= high:
			candidates = append(candidates, s.exact(x, j))
		}
	}
	if len(candidates) == 0 {
		return v
	}
	return selectNth(candidates, min(max(rank-nearer, 0), len(candidates)-1))
}

// bound is how far squared[j] may be from the truth.
func (s *search) bound(j int) float64 {
	r := s.norm + s.norms[j]
	return s.slack * r * r
}

// exact is the squared distance to training row j.
func (s *search) exact(x []float32, j int) float64 {
	var sum float64
	for i, v := range row(s.train, j) {
		d := float64(x[i]) - float64(v)
		sum += d * d
	}
	return sum
}
