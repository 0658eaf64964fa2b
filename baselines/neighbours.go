package baselines

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// neighbours finds the nearest of a set of rows by exhaustive search.
//
// Squared distances come as ‖a‖² + ‖b‖² − 2a·b from a float32 product of centred
// rows, which cancels where a and b are close. That decides which rows can be
// among the nearest; of them, where the rounding matters, distances are computed
// again from differences in float64.
//
// Rows are scaled and centred block after block, so that beside the rows as they
// came memory is bounded whatever their number.
type neighbours struct {
	train   blas32.General // n×h, as they came
	inverse []float64      // of the norms of the rows of train where all rows are scaled to norm 1, else nil
	mean    []float64      // of the rows of train, scaled, h
	squares []float64      // of the norms of the rows of train, scaled, less mean, n
	// A squared distance to row j is off by slack·(‖a‖+√squares[j])² at most.
	slack   float64
	largest float64 // of the norms less mean
}

// newNeighbours searches among the rows of train, which it keeps; unit scales
// them and the rows to search for to norm 1. Rows of zeros stay zero.
func newNeighbours(train blas32.General, unit bool) (*neighbours, error) {
	if err := checkRows(train, "distances"); err != nil {
		return nil, err
	}
	h := train.Cols
	n := &neighbours{train: train, mean: make([]float64, h), squares: make([]float64, train.Rows)}
	if unit {
		n.inverse = make([]float64, train.Rows)
		for i := range n.inverse {
			n.inverse[i] = inverseNorm(row(train, i))
		}
	}
	scaled := make([]float32, h)
	for i := range train.Rows {
		for j, v := range n.row(scaled, i) {
			n.mean[j] += float64(v)
		}
	}
	for j := range n.mean {
		n.mean[j] /= float64(train.Rows)
	}
	for i := range n.squares {
		for j, v := range n.row(scaled, i) {
			c := float64(float32(float64(v) - n.mean[j]))
			n.squares[i] += c * c
		}
	}
	n.largest = math.Sqrt(slices.Max(n.squares))
	// The rounding of a sum of h products is below √h units as a rule (the worst
	// case is h); this is twice that, since ‖a‖‖b‖ ≤ (‖a‖+‖b‖)²/4.
	n.slack = (2 + math.Sqrt(float64(h))) / (1 << 24)
	return n, nil
}

// bank is the training features for a scorer to keep, which outlives them: a
// copy, unless they are said to stay.
func bank(t ood.Training) blas32.General {
	if t.Stays {
		return t.Features
	}
	return blas32.General{
		Rows: t.Features.Rows, Cols: t.Features.Cols, Stride: max(t.Features.Cols, 1),
		Data: heads.ArrayOf(t.Features).Data.([]float32),
	}
}

// stored is rows that stay as they are, as an array.
func stored(m blas32.General) heads.Array {
	if m.Stride == m.Cols {
		return heads.Array{Shape: []int{m.Rows, m.Cols}, Data: m.Data[:m.Rows*m.Cols]}
	}
	return heads.ArrayOf(m)
}

// inverseNorm is 1/‖x‖, or 1 for a row of zeros.
func inverseNorm(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	if s == 0 {
		return 1
	}
	return 1 / math.Sqrt(s)
}

// row is training row i, scaled, in buf where it has to be.
func (n *neighbours) row(buf []float32, i int) []float32 {
	if n.inverse == nil {
		return row(n.train, i)
	}
	scaleRow(buf, row(n.train, i), n.inverse[i])
	return buf
}

func scaleRow(dst, x []float32, by float64) {
	for j, v := range x {
		dst[j] = float32(by * float64(v))
	}
}

const (
	// Rows of either side in one product at most, and elements of the training
	// rows among them.
	neighboursRows    = 1024
	neighboursTrain   = 2048
	neighboursElement = 1 << 20
	// Candidates held at a time, 16 bytes each.
	neighboursRoom = 4 << 20
	// Elements of training rows that are centred once, rather than again for
	// every block of rows to search for.
	neighboursOnce = 8 << 20
)

// search calls visit with every row of x and the training rows that may be
// among the k nearest. own says that x are the training rows, none of which is
// its own neighbour. Calls come from several goroutines.
func (n *neighbours) search(ctx context.Context, x blas32.General, k int, own bool, visit func(i int, s *search)) error {
	m, h := n.train.Rows, n.train.Cols
	k = min(k, m)
	room := min(m, max(4*k, 256))
	block := min(max(neighboursRoom/room, 8), neighboursRows, max(x.Rows, 1))
	trainBlock := min(m, max(neighboursElement/h, 64), neighboursTrain)
	scaled := matrixOf(block, h)
	a, held := matrixOf(block, h), matrixOf(trainBlock, h)
	once := m*h <= neighboursOnce && x.Rows > block
	if once {
		held = matrixOf(m, h)
	}
	products := make([]float32, block*trainBlock)
	searches := make([]search, block)
	for i := range searches {
		searches[i] = search{neighbours: n, k: k, room: room}
	}
	work := newScratch(h)
	for first := 0; first < x.Rows; first += block {
		a.Rows = min(block, x.Rows-first)
		work.each(a.Rows, func(r int, _ *scratch) {
			to := row(scaled, r)
			if n.inverse == nil {
				copy(to, row(x, first+r))
			} else {
				scaleRow(to, row(x, first+r), inverseNorm(row(x, first+r)))
			}
			centre(row(a, r), to, n.mean)
			searches[r].begin(to, row(a, r))
			if own {
				searches[r].own = first + r
			}
		})
		for j := 0; j < m; j += trainBlock {
			if err := ctx.Err(); err != nil {
				return err
			}
			b := held
			b.Rows = min(trainBlock, m-j)
			if once {
				b.Data = held.Data[j*h:]
			}
			if !once || first == 0 {
				work.each(b.Rows, func(r int, w *scratch) { centre(row(b, r), n.row(w.row, j+r), n.mean) })
			}
			c := blas32.General{Rows: a.Rows, Cols: b.Rows, Stride: b.Rows, Data: products[:a.Rows*b.Rows]}
			blas32.Gemm(blas.NoTrans, blas.Trans, 1, a, b, 0, c)
			work.each(a.Rows, func(r int, w *scratch) { searches[r].scan(w, row(c, r), j) })
		}
		work.each(a.Rows, func(r int, w *scratch) {
			if s := &searches[r]; s.finite() {
				s.narrow(w)
			}
			searches[r].work = w
			visit(first+r, &searches[r])
		})
	}
	return ctx.Err()
}

func matrixOf(rows, cols int) blas32.General {
	return blas32.General{Rows: rows, Cols: cols, Stride: max(cols, 1), Data: make([]float32, rows*cols)}
}

// centre is x less mean.
func centre(dst, x []float32, mean []float64) {
	for j, v := range x {
		dst[j] = float32(float64(v) - mean[j])
	}
}
