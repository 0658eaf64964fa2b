package engine

import (
	"iter"
	"sort"

	"github.com/attach-uncertainty/attach/ood"
)

// pieceBytes is the least size of the pieces that a large shard is divided into. Other machines
// score each piece by itself. A piece should take longer than the start of its scoring, and a
// file of a few gigabytes should have more pieces than there are machines.
const pieceBytes = 64 << 20

// pieces returns the number of pieces of a shard with this number of bytes. It depends on
// nothing else, so that a shard need not be opened to divide it.
func pieces(size int64) int { return int(max(1, size/pieceBytes)) }

// pieceBounds divides n rows into pieces that begin with a block. It returns the first row of
// each piece, and n. Some pieces are empty if there are fewer blocks than pieces.
//
// The model never runs rows of two pieces together, whether or not other machines score them.
// Scores are therefore the same, even if they depend on the size of a batch.
func pieceBounds(n, blockRows, pieces int) []int {
	bounds := make([]int, pieces+1)
	for i := range pieces {
		bounds[i] = n * i / pieces / blockRows * blockRows
	}
	bounds[pieces] = n
	return bounds
}

// pieceEnd returns the end of the piece with a row.
func pieceEnd(bounds []int, row int) int { return bounds[sort.SearchInts(bounds, row+1)] }

// blockQueue divides a sequence of blocks.
type blockQueue struct {
	next func() (ood.InputBlock, error, bool)
	held ood.InputBlock // rows that were read but not taken
}

// take yields the next n rows.
func (q *blockQueue) take(n int) iter.Seq2[ood.InputBlock, error] {
	return func(yield func(ood.InputBlock, error) bool) {
		for n > 0 {
			b := q.held
			if q.held = (ood.InputBlock{}); b.Len() == 0 {
				var err error
				var ok bool
				if b, err, ok = q.next(); !ok || err != nil {
					if ok {
						yield(b, err)
					}
					return
				}
			}
			if b.Len() > n {
				b, q.held = b.Slice(0, n), b.Slice(n, b.Len())
			}
			n -= b.Len()
			if !yield(b, nil) {
				return
			}
		}
	}
}
