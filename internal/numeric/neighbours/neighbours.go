// Package neighbours finds the nearest rows of a set. It compares a query row with all rows of
// the set, and needs little memory in addition to the rows.
package neighbours

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
)

// Index is a set of rows to search.
//
// The search computes squared distances as ‖a‖² + ‖b‖² − 2a·b in float32, after subtracting
// the mean of the rows. It then computes the distances to the nearest rows from differences in
// float64. If the distances of two rows agree to a few millionths of their norms, the rows may
// be swapped. Rows of few columns can be so dense that most have such neighbours, so the search
// computes all their distances from differences.
type Index struct {
	Rows         blas32.General // n×h, neither scaled nor centred
	scale        []float64      // factor that scales each row to norm 1, or nil if rows are not scaled
	mean         []float64      // mean of the scaled rows, h
	squaredNorms []float64      // squared norm of (scaled row − mean) for each row, n
	workspaces   sync.Pool      // pool of *workspace
}

// workspace is the memory that a search needs in addition to the index. Later searches reuse
// it. Otherwise a search for each block of queries could leave as much garbage as the size of
// the index.
type workspace struct {
	a, b     blas32.General
	products []float32
	searches []search
}

// New returns an index of n finite rows, which it keeps without copying. If unit is true, rows
// and query rows are scaled to norm 1, but rows of zeros stay zero.
func New(indexed blas32.General, unit bool) *Index {
	x := &Index{Rows: indexed, mean: make([]float64, indexed.Cols), squaredNorms: make([]float64, indexed.Rows)}
	if unit {
		x.scale = make([]float64, indexed.Rows)
		for i := range x.scale {
			x.scale[i] = rows.InverseNorm(rows.Row(indexed, i))
		}
	}
	for i := range indexed.Rows {
		for j, v := range rows.Row(indexed, i) {
			x.mean[j] += x.scaleOf(i) * float64(v) / float64(indexed.Rows)
		}
	}
	buf := make([]float32, indexed.Cols)
	for i := range indexed.Rows {
		x.squaredNorms[i] = x.centre(buf, rows.Row(indexed, i), x.scaleOf(i))
	}
	return x
}

func (x *Index) scaleOf(i int) float64 {
	if x.scale == nil {
		return 1
	}
	return x.scale[i]
}

// centre sets dst to the scaled row minus the mean, and returns the squared norm of dst.
func (x *Index) centre(dst, row []float32, scale float64) (squared float64) {
	for j, v := range row {
		dst[j] = float32(scale*float64(v) - x.mean[j])
		squared += float64(dst[j]) * float64(dst[j])
	}
	return squared
}

const (
	rowsAtOnce       = 1024    // largest number of query rows in one matrix product
	indexedAtOnce    = 2048    // largest number of index rows in one matrix product
	maxElements      = 1 << 20 // largest number of elements of a block of index rows, unless it has only 64 rows
	maxDirectColumns = 2       // largest number of columns whose distances are computed from differences
	maxCandidates    = 4 << 20 // largest number of candidates in memory, unless there are only 8 query rows
)

// search is the state of the search for the neighbours of one query row.
type search struct {
	x           []float32 // query row, neither scaled nor centred
	scale       float64
	squaredNorm float64  // squared norm of the scaled and centred row, not finite if the row is not
	excluded    int      // index row to leave out, or −1
	candidates  []uint64 // keys of the k nearest rows so far, and possibly of others
	maxKey      uint64   // keys above maxKey are not among the k nearest
}

// keyOf returns a key that orders rows by distance, and rows at equal distances by number.
// Negative squared distances, which come from rounding, count as 0.
func keyOf(squaredDistance float64, row int) uint64 {
	return uint64(math.Float32bits(float32(max(squaredDistance, 0))))<<32 | uint64(row)
}

func rowOf(key uint64) int { return int(uint32(key)) }

// searchAll finds the k nearest index rows of every row of q, and calls visit with the state
// of each search. Calls come from several goroutines. If excludeSelf is true, q must be the
// rows of the index, and a row is not its own neighbour.
func (x *Index) searchAll(ctx context.Context, q blas32.General, k int, excludeSelf bool, visit func(i int, s *search)) error {
	m, h := x.Rows.Rows, x.Rows.Cols
	k = min(k, m)
	capacity := min(m, max(4*k, 256))
	queryBlock := min(max(maxCandidates/capacity, 8), rowsAtOnce, max(q.Rows, 1))
	indexBlock := min(m, max(maxElements/h, 64), indexedAtOnce)
	w, _ := x.workspaces.Get().(*workspace)
	if w == nil || len(w.searches) < queryBlock {
		w = &workspace{rows.New(queryBlock, h), rows.New(indexBlock, h), make([]float32, queryBlock*indexBlock), make([]search, queryBlock)}
	}
	defer x.workspaces.Put(w)
	a, b, products, searches := w.a, w.b, w.products, w.searches
	for first := 0; first < q.Rows; first += queryBlock {
		a.Rows = min(queryBlock, q.Rows-first)
		inParallel(a.Rows, func(r int) {
			s := &searches[r]
			*s = search{x: rows.Row(q, first+r), scale: 1, excluded: -1, candidates: s.candidates[:0], maxKey: math.MaxUint64}
			if x.scale != nil {
				s.scale = rows.InverseNorm(s.x)
			}
			if excludeSelf {
				s.excluded = first + r
			}
			s.squaredNorm = x.centre(rows.Row(a, r), s.x, s.scale)
		})
		for j := 0; j < m; j += indexBlock {
			if err := ctx.Err(); err != nil {
				return err
			}
			b.Rows = min(indexBlock, m-j)
			if h <= maxDirectColumns {
				inParallel(a.Rows, func(r int) {
					squares := products[r*b.Rows:][:b.Rows]
					for i := range squares {
						squares[i] = float32(x.squaredDistance(&searches[r], j+i))
					}
					searches[r].scan(squares, nil, j, k, capacity)
				})
				continue
			}
			inParallel(b.Rows, func(r int) { x.centre(rows.Row(b, r), rows.Row(x.Rows, j+r), x.scaleOf(j+r)) })
			c := blas32.General{Rows: a.Rows, Cols: b.Rows, Stride: b.Rows, Data: products[:a.Rows*b.Rows]}
			blas32.Gemm(blas.NoTrans, blas.Trans, 1, a, b, 0, c)
			inParallel(a.Rows, func(r int) { searches[r].scan(rows.Row(c, r), x.squaredNorms[j:], j, k, capacity) })
		}
		inParallel(a.Rows, func(r int) { visit(first+r, &searches[r]) })
	}
	return ctx.Err()
}

// scan adds to the candidates those index rows that may be among the k nearest. products
// are the scalar products of the query row with the index rows from first on. If squaredNorms is
// nil, they are the squared distances.
func (s *search) scan(products []float32, squaredNorms []float64, first, k, capacity int) {
	limit := s.limit()
	for j, p := range products {
		v := float64(p)
		if squaredNorms != nil {
			v = s.squaredNorm + squaredNorms[j] - 2*v
		}
		if v > limit || first+j == s.excluded {
			continue
		}
		s.candidates = append(s.candidates, keyOf(v, first+j))
		if len(s.candidates) == capacity && k < capacity {
			s.maxKey = quantile.Select(s.candidates, k-1)
			s.candidates = s.candidates[:k]
			limit = s.limit()
		}
	}
}

// limit returns the squared distance above which index rows are skipped.
func (s *search) limit() float64 {
	if s.maxKey == math.MaxUint64 {
		return math.Inf(1)
	}
	return float64(math.Float32frombits(uint32(s.maxKey >> 32)))
}

// distance returns the distance of the query row to row j of the index, computed in float64.
func (x *Index) distance(s *search, j int) float64 { return math.Sqrt(x.squaredDistance(s, j)) }

func (x *Index) squaredDistance(s *search, j int) (sum float64) {
	scale := x.scaleOf(j)
	for i, v := range rows.Row(x.Rows, j) {
		d := s.scale*float64(s.x[i]) - scale*float64(v)
		sum += d * d
	}
	return sum
}

// Distances returns the distances of all rows of q to their nearest index row (rank 0), second
// nearest index row (rank 1) and so on. The keys of the result are the given ranks. If a query
// row is not finite, its distances are not finite either.
func (x *Index) Distances(ctx context.Context, q blas32.General, ranks []int) (map[int][]float64, error) {
	sortedRanks := slices.Compact(slices.Sorted(slices.Values(ranks)))
	distances := map[int][]float64{}
	for _, rank := range sortedRanks {
		distances[rank] = make([]float64, q.Rows)
	}
	return distances, x.searchAll(ctx, q, sortedRanks[len(sortedRanks)-1]+1, false, func(i int, s *search) {
		done := 0 // candidates before done are nearer than the next rank
		for _, rank := range sortedRanks {
			distances[rank][i] = s.squaredNorm
			if s.finite() {
				distances[rank][i] = x.distance(s, rowOf(quantile.Select(s.candidates[done:], rank-done)))
			}
			done = rank
		}
	})
}

// DistancesGraph writes the computation of Distances as graph nodes. The result is n×ranks for
// n rows of q. If a row is not finite, neither are its distances. DistancesGraph returns an
// error if graph.CheckBank rejects the index rows.
func (x *Index) DistancesGraph(q graph.Tensor, ranks ...int) (graph.Tensor, error) {
	k, padding := slices.Max(ranks)+1, 0
	inBlocks := k == 1 && x.Rows.Rows > longSearch && q.Opset() >= blocksOpset
	if inBlocks {
		padding = (blockOfRows - x.Rows.Rows%blockOfRows) % blockOfRows
	}
	a, bank, err := x.graph(q, padding)
	if err != nil {
		return graph.Tensor{}, err
	}
	nearness := x.nearnessGraph(a, bank, padding)
	var nearest graph.Tensor
	switch {
	case inBlocks:
		nearest = nearness.ArgMaxOf(nearness.Cols() / blockOfRows)
	case k == 1:
		nearest = nearness.ArgMax()
	default:
		_, nearest = nearness.Top(k)
	}
	var all []graph.Tensor
	for _, rank := range ranks {
		all = append(all, a.Double().Sub(nearest.Columns(rank, rank+1).Rows(bank).Double()).Norm())
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return all[0].Concat(all[1:]...), nil
}

// NearestGraph writes graph nodes for the k nearest index rows of each row of q: their
// distances and their row numbers, both n×k, with the nearest row first. It returns the same
// errors as DistancesGraph.
func (x *Index) NearestGraph(q graph.Tensor, k int) (distances, rowNumbers graph.Tensor, err error) {
	a, bank, err := x.graph(q, 0)
	if err != nil {
		return a, a, err
	}
	_, rowNumbers = x.nearnessGraph(a, bank, 0).Top(k)
	nearestRows := rowNumbers.Rows(bank).Reshape(-1, int64(k), int64(a.Cols())).Double()
	return a.Double().Reshape(-1, 1, int64(a.Cols())).Sub(nearestRows).Norm().Reshape(-1, int64(k)), rowNumbers, nil
}

// graph writes the scaled and centred query rows and index rows, with rows of zeros after them.
func (x *Index) graph(q graph.Tensor, padding int) (a, bank graph.Tensor, err error) {
	n, h := x.Rows.Rows, x.Rows.Cols
	if err := graph.CheckBank(n, h, 4); err != nil {
		return a, bank, err
	}
	a = q.Double()
	if x.scale != nil {
		a = q.Unit()
	}
	centred := rows.New(n+padding, h)
	for i := range n {
		x.centre(rows.Row(centred, i), rows.Row(x.Rows, i), x.scaleOf(i))
	}
	return a.Sub(x.mean).Single(), q.Constant(centred), nil
}

// A graph searches for the nearest of more than longSearch index rows in blocks of blockOfRows,
// which is faster for many query rows. The nodes need operator set blocksOpset.
const longSearch, blockOfRows, blocksOpset = 4096, 128, 12

// nearnessGraph writes 2a·b − ‖b‖² for each query row a and index row b. It is largest for the
// nearest index row. It is smallest for the padding.
//
// For few columns it writes −‖a−b‖² instead, column by column: see Index.
func (x *Index) nearnessGraph(a, bank graph.Tensor, padding int) graph.Tensor {
	if x.Rows.Cols <= maxDirectColumns {
		return x.directNearnessGraph(a, padding)
	}
	negativeNorms := slices.Repeat([]float64{-math.MaxFloat32}, x.Rows.Rows+padding)
	for i, n := range x.squaredNorms {
		negativeNorms[i] = -n
	}
	return a.Affine(2, bank, negativeNorms)
}

func (x *Index) directNearnessGraph(a graph.Tensor, padding int) graph.Tensor {
	const far = 1e18 // of padding; the square is a finite float32
	columns, row := make([][]float32, x.Rows.Cols), make([]float32, x.Rows.Cols)
	for i := range x.Rows.Rows {
		x.centre(row, rows.Row(x.Rows, i), x.scaleOf(i))
		for j, v := range row {
			columns[j] = append(columns[j], v)
		}
	}
	var sum graph.Tensor
	for j, column := range columns {
		squares := a.Columns(j, j+1).Sub(append(column, slices.Repeat([]float32{far}, padding)...)).Square()
		if j == 0 {
			sum = squares
		} else {
			sum = sum.Add(squares)
		}
	}
	return sum.Neg()
}

func (s *search) finite() bool { return rows.Finite(s.squaredNorm) }

// Neighbour is a row of an index and its distance.
type Neighbour struct {
	Row      int
	Distance float64
}

// Nearest returns the k nearest index rows of every row of q, or all if there are fewer,
// with the nearest first. A row that is not finite has no neighbours. If excludeSelf is
// true, q must be the rows of the index, and a row is not its own neighbour.
func (x *Index) Nearest(ctx context.Context, q blas32.General, k int, excludeSelf bool) ([][]Neighbour, error) {
	nearest := make([][]Neighbour, q.Rows)
	return nearest, x.searchAll(ctx, q, k, excludeSelf, func(i int, s *search) {
		if !s.finite() {
			return
		}
		count := min(k, len(s.candidates))
		nearest[i] = make([]Neighbour, 0, count)
		quantile.Select(s.candidates, count-1)
		for _, key := range s.candidates[:count] {
			nearest[i] = append(nearest[i], Neighbour{rowOf(key), x.distance(s, rowOf(key))})
		}
		slices.SortFunc(nearest[i], func(a, b Neighbour) int { return cmp.Or(cmp.Compare(a.Distance, b.Distance), a.Row-b.Row) })
	})
}

// inParallel calls f for each r from 0 to n−1, on several goroutines.
func inParallel(n int, f func(r int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for r := w; r < n; r += workers {
				f(r)
			}
		})
	}
	wg.Wait()
}
