// Package gaps learns how often the cells of table columns are empty, and finds rows whose
// cells are emptier than those of the reference rows.
package gaps

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// Profile holds the counts of empty cells of n reference rows, and limits for further rows.
//
// The surprise of an empty cell is log (n+1)/(c+1), if c reference rows have an empty cell in
// that column. It is 0 for a column that is always empty, and largest for a column that never
// is. A row is unseen if its most surprising empty cell exceeds Rarest, or if the sum over its
// empty cells exceeds Together.
type Profile struct {
	Rows     int       `state:"rows,least=1"`
	Empty    []float64 `state:"empty[columns],least=0"` // c, by column
	Rarest   float64   `state:"rarest,least=0"`
	Together float64   `state:"together,least=0"`
}

// slack tolerates the rounding of sums, which graphs compute in another order.
const slack = 1e-9

// Learn returns the profile of the reference rows fit and, if it has rows, more. Both are n×k:
// 1 if a cell is empty, 0 if not. It also returns approximately the probability that a further
// row like the reference rows is unseen: the given fraction, or more if there are few
// reference rows.
//
// The limits are quantiles over the reference rows. Each of these is compared with the others,
// as if it had not been counted, because further rows are not counted either. The argument is
// that of Good (1953), The Population Frequencies of Species and the Estimation of Population
// Parameters.
func Learn(fit, more blas32.General, fraction float64) (p Profile, probability float64) {
	p = Profile{Rows: fit.Rows + more.Rows, Empty: make([]float64, fit.Cols)}
	for _, m := range []blas32.General{fit, more} {
		for i := range m.Rows {
			for j, empty := range rows.Row(m, i) {
				p.Empty[j] += float64(empty)
			}
		}
	}
	others := p.surprises(1)
	var rarest, together []float64
	for _, m := range []blas32.General{fit, more} {
		for i := range m.Rows {
			largest, sum := of(rows.Row(m, i), others)
			rarest, together = append(rarest, largest), append(together, sum)
		}
	}
	// Each limit gets half of the fraction, and at least one row: one unusual row among many
	// does not make further ones common. If there are few rows, one row is too large a
	// fraction.
	above := int(math.Ceil(fraction / 2 * float64(p.Rows)))
	likely := func() float64 { return 2 * float64(above+1) / float64(p.Rows+1) }
	if likely() > tooLikely*fraction {
		above = 0
	}
	p.Rarest, p.Together = exceededBy(rarest, above), exceededBy(together, above)
	return p, likely()
}

// tooLikely bounds the fraction of unseen rows, as a multiple of the given fraction, if the
// limits let one unusual reference row pass.
const tooLikely = 5

// exceededBy returns the smallest of values that at most n of them exceed.
func exceededBy(values []float64, n int) float64 {
	slices.Sort(values)
	return values[max(0, len(values)-1-n)]
}

// Surprises returns the surprise of an empty cell, by column.
func (p Profile) Surprises() []float64 { return p.surprises(0) }

// surprises computes Surprises without some of the reference rows with an empty cell.
func (p Profile) surprises(own float64) []float64 {
	s := make([]float64, len(p.Empty))
	for j, c := range p.Empty {
		s[j] = math.Log(float64(p.Rows+1) / (max(c-own, 0) + 1))
	}
	return s
}

// Limits returns Rarest and Together, with tolerance for rounding.
func (p Profile) Limits() (rarest, together float64) {
	return p.Rarest * (1 + slack), p.Together * (1 + slack)
}

// of returns the largest surprise of a row's empty cells, and their sum.
func of(row []float32, surprises []float64) (largest, sum float64) {
	for j, empty := range row {
		if empty > 0 {
			largest = max(largest, surprises[j])
			sum += surprises[j]
		}
	}
	return largest, sum
}

// Unseen reports which rows of m have emptier cells than the reference rows. It returns nil if
// none has.
func (p Profile) Unseen(m blas32.General) []bool { return p.unseen(m, p.Surprises()) }

// UnseenOwn is Unseen for rows that are reference rows themselves: each is compared with the
// others.
func (p Profile) UnseenOwn(m blas32.General) []bool { return p.unseen(m, p.surprises(1)) }

func (p Profile) unseen(m blas32.General, surprises []float64) []bool {
	var unseen []bool
	rarest, together := p.Limits()
	for i := range m.Rows {
		if largest, sum := of(rows.Row(m, i), surprises); largest > rarest || sum > together {
			if unseen == nil {
				unseen = make([]bool, m.Rows)
			}
			unseen[i] = true
		}
	}
	return unseen
}

// Restored returns an error for counts that no rows have.
func (p *Profile) Restored() error {
	for j, c := range p.Empty {
		if c != math.Trunc(c) || c > float64(p.Rows) {
			return fmt.Errorf("column %d is empty in %v of %d rows", j, c, p.Rows)
		}
	}
	return nil
}

// unusual is the probability with which at least one column is called unusual although all
// rows come from the same source.
const unusual = 0.01

// Unusual reports whether a column is empty in more of the given number of further rows than
// in the reference rows: it was never empty there, or Fisher's exact test finds a difference,
// adjusted for the number of columns.
func Unusual(empty, further, referenceEmpty, reference, columns int) bool {
	switch {
	case empty == 0:
		return false
	case referenceEmpty == 0:
		return true
	// Equal fractions are common, and then the sum over thousands of terms is not needed.
	case float64(empty)*float64(reference) <= float64(referenceEmpty)*float64(further):
		return false
	}
	return hypothesis.Hypergeometric(referenceEmpty, reference, referenceEmpty+empty, reference+further) <= unusual/float64(columns)
}
