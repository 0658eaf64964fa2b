package baselines

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/rows"
)

// checkRegression says what is wrong with rows and targets to fit with.
func checkRegression(r heads.Regression, method string) error {
	switch {
	case r.X.Rows == 0:
		return &rows.TooFewRowsError{What: method, Need: 1}
	case r.X.Cols == 0 || r.Y.Cols == 0:
		return fmt.Errorf("%s needs at least one input and one target, not %d and %d", method, r.X.Cols, r.Y.Cols)
	case r.X.Rows != r.Y.Rows:
		return fmt.Errorf("%s was given %d rows of inputs but %d of targets", method, r.X.Rows, r.Y.Rows)
	}
	if err := rows.CheckFinite("x", r.X); err != nil {
		return err
	}
	return rows.CheckFinite("y", r.Y)
}

// restoring is heads.QuantileMethod.Restore for what New returns, empty.
func restoring(empty func() heads.QuantileRegressor) func(rows.State) (heads.QuantileRegressor, error) {
	return func(s rows.State) (heads.QuantileRegressor, error) {
		q := empty()
		if err := rows.Restore(q, s, nil); err != nil {
			return nil, err
		}
		return q, nil
	}
}

// targetColumn is a copy of target t of y.
func targetColumn(y blas32.General, t int) []float32 {
	column := make([]float32, y.Rows)
	for i := range column {
		column[i] = y.Data[i*y.Stride+t]
	}
	return column
}

// newQuantiles is room for the quantiles of the rows of x, which must have
// cols columns.
func newQuantiles(x blas32.General, cols, targets int, levels []float64) heads.Quantiles {
	if x.Rows > 0 && x.Cols != cols {
		panic(fmt.Sprintf("baselines: quantiles of %d columns, fitted on %d", x.Cols, cols))
	}
	q := heads.Quantiles{Rows: x.Rows, Targets: targets, Levels: slices.Clone(levels)}
	q.Data = make([]float32, q.Rows*q.Targets*len(levels))
	return q
}

// spoil makes the quantiles NaN of those rows of x that hold NaN.
func spoil(q heads.Quantiles, x blas32.General) {
	nan := float32(math.NaN())
	for i := range x.Rows {
		if !slices.ContainsFunc(row(x, i), func(v float32) bool { return v != v }) {
			continue
		}
		for t := range q.Targets {
			for l := range q.Row(i, t) {
				q.Row(i, t)[l] = nan
			}
		}
	}
}

// shareOf turns steps that are done in several goroutines into calls of
// progress, one at a time and never less than before.
func shareOf(total int, progress func(share float64)) (step func()) {
	if progress == nil {
		return func() {}
	}
	var mu sync.Mutex
	done := 0
	return func() {
		mu.Lock()
		defer mu.Unlock()
		done++
		progress(float64(done) / float64(total))
	}
}
