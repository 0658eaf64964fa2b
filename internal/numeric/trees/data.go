package trees

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas/blas32"
)

const (
	// Automatic looks at every split of up to exactRows rows, and of more rows
	// at those between maxBins bins.
	Automatic = 0
	// Exact looks at every split.
	Exact = -1

	exactRows = 1 << 14
	maxBins   = 255
)

// Data are training inputs, arranged for the search of splits. They serve any
// number of trees, at the same time too.
type Data struct {
	rows, cols int
	columns    []float32 // cols × rows
	codes      []uint16  // the bins of the elements, cols × rows
	bins       [][]bin   // per column, in increasing order
}

// bin is the range of the training values that share a code.
type bin struct{ lo, hi float32 }

// NewData arranges x, n×d and finite. bins is Automatic, Exact, or the largest
// number of bins per column, 2 to 255. Bins hold about equally many rows; a
// column of no more distinct values than bins loses nothing by them.
func NewData(x blas32.General, bins int) (*Data, error) {
	switch {
	case x.Rows < 1 || x.Cols < 1:
		return nil, fmt.Errorf("trees need at least one row and one column, not %d×%d", x.Rows, x.Cols)
	case x.Rows > math.MaxInt32:
		return nil, fmt.Errorf("trees of %d rows are too large", x.Rows)
	case bins == Automatic && x.Rows <= exactRows:
		bins = Exact
	case bins == Automatic:
		bins = maxBins
	case bins != Exact && (bins < 2 || bins > maxBins):
		return nil, fmt.Errorf("the number of bins must be 2 to %d, not %d", maxBins, bins)
	}
	if bins == Exact {
		bins = 1 << 16
	}
	d := &Data{
		rows: x.Rows, cols: x.Cols, columns: make([]float32, x.Rows*x.Cols),
		codes: make([]uint16, x.Rows*x.Cols), bins: make([][]bin, x.Cols),
	}
	inParallel(runtime.GOMAXPROCS(0), x.Cols, func(_, f int) {
		column := d.column(f)
		for i := range column {
			column[i] = x.Data[i*x.Stride+f]
		}
		sorted := make([]int32, x.Rows)
		for i := range sorted {
			sorted[i] = int32(i)
		}
		slices.SortFunc(sorted, func(a, b int32) int { return cmp.Or(cmp.Compare(column[a], column[b]), cmp.Compare(a, b)) })
		d.bins[f] = cut(column, sorted, bins, d.codes[f*x.Rows:(f+1)*x.Rows])
	})
	return d, nil
}

// cut divides a column, whose rows sorted has in increasing order, into at most
// n bins of equal values or about equally many rows, and writes the bin of each
// row to codes.
func cut(column []float32, sorted []int32, n int, codes []uint16) []bin {
	distinct := 1
	for i := 1; i < len(sorted); i++ {
		if column[sorted[i]] != column[sorted[i-1]] {
			distinct++
		}
	}
	var bins []bin
	for i, r := range sorted {
		x := column[r]
		if i == 0 || x != column[sorted[i-1]] &&
			(distinct <= n || i >= len(bins)*len(sorted)/n && len(bins) < n) {
			bins = append(bins, bin{x, x})
		}
		bins[len(bins)-1].hi = x
		codes[r] = uint16(len(bins) - 1)
	}
	return bins
}

func (d *Data) column(f int) []float32 { return d.columns[f*d.rows : (f+1)*d.rows] }

// between is the largest float32 that is not above the middle of a and b, a < b.
func between(a, b float32) float32 {
	middle := (float64(a) + float64(b)) / 2
	m := float32(middle)
	if float64(m) > middle {
		m = math.Nextafter32(m, a)
	}
	return m
}

// inParallel calls f(worker, i) for every i below n, on up to workers
// goroutines; calls of one worker follow each other.
func inParallel(workers, n int, f func(worker, i int)) {
	workers = min(workers, n)
	if workers <= 1 {
		for i := range n {
			f(0, i)
		}
		return
	}
	var wg sync.WaitGroup
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	for w := range workers {
		wg.Go(func() {
			for i := range next {
				f(w, i)
			}
		})
	}
	wg.Wait()
}
