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
	// Automatic tries every split if there are at most exactRows rows. With more rows, it
	// tries only the splits between maxBins bins.
	Automatic = 0
	// Exact tries every split. If a column has more than 65,536 distinct values, it tries
	// only the splits between 65,536 bins.
	Exact = -1

	exactRows = 1 << 14
	maxBins   = 255
)

// Data holds training inputs, arranged for a fast search for splits. Several trees can use
// the same Data at the same time.
type Data struct {
	rows, cols int
	columns    []float32 // column by column
	codes      []uint16  // index of the bin of each element, column by column
	bins       [][]bin   // bins of each column, in increasing order
}

// bin is a range of training values, which are not split further.
type bin struct{ lo, hi float32 }

// NewData arranges x, n×d and finite. bins is Automatic, Exact, or the largest number of bins
// of a column, from 2 to 255. Bins contain about equally many rows. If a column has no more
// distinct values than bins, each value has its own bin and no split is lost.
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
		d.bins[f] = makeBins(column, sorted, bins, d.codes[f*x.Rows:(f+1)*x.Rows])
	})
	return d, nil
}

// makeBins divides a column into at most n bins and writes the bin of each row to codes. If
// there are at most n distinct values, each value has its own bin. Otherwise bins contain
// about equally many rows. sorted holds the rows in increasing order of the column.
func makeBins(column []float32, sorted []int32, n int, codes []uint16) []bin {
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

// midpoint returns the midpoint of a and b for a < b, rounded down to float32.
func midpoint(a, b float32) float32 {
	middle := (float64(a) + float64(b)) / 2
	m := float32(middle)
	if float64(m) > middle {
		m = math.Nextafter32(m, a)
	}
	return m
}

// inParallel calls f(worker, i) for each i from 0 to n−1, on at most workers goroutines. Calls
// with the same worker do not overlap.
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
