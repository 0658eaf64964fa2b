// Package gaps learns how often each table column is empty in reference rows, and finds new
// rows with unusual empty cells.
package gaps

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// Profile counts the empty cells in n reference rows and holds limits for new rows.
//
// The surprise of an empty cell is log((n+1)/(c+1)), where c is the number of reference
// rows with an empty cell in that column. The surprise is 0 for a column that is always
// empty, and largest for a column that is never empty. A new row is unseen (unlike the
// reference rows) if its largest surprise exceeds Rarest, or if the sum of its surprises
// exceeds Together.
type Profile struct {
	Rows     int       `state:"rows,least=1"`
	Empty    []float64 `state:"empty[columns],least=0"` // number of empty cells in each column
	Rarest   float64   `state:"rarest,least=0"`
	Together float64   `state:"together,least=0"`
}

// slack is the relative tolerance of limits. It is needed because exported graphs add
// surprises in a different order and round differently.
const slack = 1e-9

// Learn returns the profile of the reference rows in fit and more. In both matrices, 1
// marks an empty cell and 0 a cell with a value. more may have no rows. Learn also returns
// the approximate probability that a new row from the same source is unseen. The
// probability is close to fraction for many reference rows, and larger for few.
//
// The limits are quantiles of the surprises of the reference rows. Each reference row is
// left out of the counts that it is compared with, because a new row is not counted either.
// The argument is that of Good (1953), The Population Frequencies of Species and the
// Estimation of Population Parameters.
func Learn(fit, more blas32.General, fraction float64) (p Profile, probability float64) {
	p = Profile{Rows: fit.Rows + more.Rows, Empty: make([]float64, fit.Cols)}
	for _, m := range []blas32.General{fit, more} {
		for i := range m.Rows {
			for j, empty := range rows.Row(m, i) {
				p.Empty[j] += float64(empty)
			}
		}
	}
	leaveOneOut := p.surprises(1)
	var rarest, together []float64
	for _, m := range []blas32.General{fit, more} {
		for i := range m.Rows {
			largest, sum := rowSurprise(rows.Row(m, i), leaveOneOut)
			rarest, together = append(rarest, largest), append(together, sum)
		}
	}
	// Up to fraction/2 of the reference rows, rounded up to whole rows, may exceed each of
	// the two limits. A single unusual row therefore cannot raise a limit. With few
	// reference rows, a new row would then be beyond a limit with a probability above
	// maxExcess·fraction. In this case none may exceed a limit, and the limits are the
	// largest values.
	exceeding := int(math.Ceil(fraction / 2 * float64(p.Rows)))
	probabilityUnseen := func() float64 { return 2 * float64(exceeding+1) / float64(p.Rows+1) }
	if probabilityUnseen() > maxExcess*fraction {
		exceeding = 0
	}
	p.Rarest, p.Together = exceededBy(rarest, exceeding), exceededBy(together, exceeding)
	return p, probabilityUnseen()
}

// maxExcess limits the probability that a new row is unseen, as a multiple of the requested
// fraction. If the probability is larger, no reference row may exceed a limit.
const maxExcess = 5

// exceededBy returns the smallest value that at most n of the values exceed.
func exceededBy(values []float64, n int) float64 {
	slices.Sort(values)
	return values[max(0, len(values)-1-n)]
}

// Surprises returns the surprise of an empty cell, by column.
func (p Profile) Surprises() []float64 { return p.surprises(0) }

// surprises returns the surprise of an empty cell, by column, after it subtracts excluded
// from each count. excluded is 1 for a row that is itself counted, and 0 for a new row.
func (p Profile) surprises(excluded float64) []float64 {
	s := make([]float64, len(p.Empty))
	for j, c := range p.Empty {
		s[j] = math.Log(float64(p.Rows+1) / (max(c-excluded, 0) + 1))
	}
	return s
}

// Limits returns Rarest and Together, raised slightly to tolerate rounding.
func (p Profile) Limits() (rarest, together float64) {
	return p.Rarest * (1 + slack), p.Together * (1 + slack)
}

// rowSurprise returns the largest surprise of a row's empty cells, and the sum of their
// surprises.
func rowSurprise(row []float32, surprises []float64) (largest, sum float64) {
	for j, empty := range row {
		if empty > 0 {
			largest = max(largest, surprises[j])
			sum += surprises[j]
		}
	}
	return largest, sum
}

// Unseen reports for each row of m whether the row is unseen. It returns nil if no row is
// unseen.
func (p Profile) Unseen(m blas32.General) []bool { return p.unseen(m, p.Surprises()) }

// UnseenOwn is like Unseen, but for reference rows. It leaves each row out of the counts
// that the row is compared with.
func (p Profile) UnseenOwn(m blas32.General) []bool { return p.unseen(m, p.surprises(1)) }

func (p Profile) unseen(m blas32.General, surprises []float64) []bool {
	var unseen []bool
	rarest, together := p.Limits()
	for i := range m.Rows {
		if largest, sum := rowSurprise(rows.Row(m, i), surprises); largest > rarest || sum > together {
			if unseen == nil {
				unseen = make([]bool, m.Rows)
			}
			unseen[i] = true
		}
	}
	return unseen
}

// Restored returns an error if a count is not a whole number, or is larger than the number
// of rows.
func (p *Profile) Restored() error {
	for j, c := range p.Empty {
		if c != math.Trunc(c) || c > float64(p.Rows) {
			return fmt.Errorf("column %d is empty in %v of %d rows", j, c, p.Rows)
		}
	}
	return nil
}

// falseAlarmRate bounds the probability that Fisher's test in Unusual reports at least one
// column of a table although all rows come from the same source.
const falseAlarmRate = 0.01

// Unusual reports whether a column is empty more often in new rows than in reference rows.
// empty is the number of empty cells in newRows new rows. referenceEmpty is the number of
// empty cells in referenceRows reference rows. columns is the number of columns of the
// table. If the column was never empty in the reference rows, a single empty cell is
// unusual. Otherwise Fisher's exact test decides, with a Bonferroni correction for the
// number of columns.
func Unusual(empty, newRows, referenceEmpty, referenceRows, columns int) bool {
	switch {
	case empty == 0:
		return false
	case referenceEmpty == 0:
		return true
	// If the new rows are not emptier, skip the test, which adds thousands of terms.
	case float64(empty)*float64(referenceRows) <= float64(referenceEmpty)*float64(newRows):
		return false
	}
	return hypothesis.Hypergeometric(referenceEmpty, referenceRows, referenceEmpty+empty, referenceRows+newRows) <= falseAlarmRate/float64(columns)
}
