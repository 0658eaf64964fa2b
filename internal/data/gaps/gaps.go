// Package gaps learns how often the cells of a table's columns are empty, and
// tells which rows have emptier cells than the rows that it learned from.
package gaps

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// Profile counts the empty cells of n reference rows and limits what a row may have.
//
// The surprise of an empty cell is log (n+1)/(c+1), if c reference rows have their
// cell of that column empty. It is 0 for a column that is always empty, and largest
// for a column that never is. A row is unseen if its most surprising empty cell is
// above Rarest, or the sum over its empty cells above Together.
type Profile struct {
	Rows     int       `state:"rows,least=1"`
	Empty    []float64 `state:"empty[columns],least=0"` // c, by column
	Rarest   float64   `state:"rarest,least=0"`
	Together float64   `state:"together,least=0"`
}

// slack forgives the rounding of sums, which graphs add up in another order.
const slack = 1e-9

// Learn makes the profile of reference rows fit and, if it has rows, more, n×k both: 1
// if a cell is empty, 0 if not. It also returns about the probability with which a
// further row like the reference rows is unseen: the given fraction, or more if the
// reference rows are few.
//
// The limits are quantiles over the reference rows. Each of these is compared with the
// others, as if it had not been counted: further rows are not among those counted
// either. The argument is that of Good (1953), The Population Frequencies of Species
// and the Estimation of Population Parameters.
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
	// Each limit takes half of the fraction, and at least one row: one odd row among many
	// does not make others like it common. Among few rows one is too large a share.
	above := int(math.Ceil(fraction / 2 * float64(p.Rows)))
	likely := func() float64 { return 2 * float64(above+1) / float64(p.Rows+1) }
	if likely() > tooLikely*fraction {
		above = 0
	}
	p.Rarest, p.Together = exceededBy(rarest, above), exceededBy(together, above)
	return p, likely()
}

// tooLikely is how many times the fraction the share of unseen rows may be, if the
// limits let one odd reference row pass.
const tooLikely = 5

// exceededBy returns the least of values that at most n of them exceed.
func exceededBy(values []float64, n int) float64 {
	slices.Sort(values)
	return values[max(0, len(values)-1-n)]
}

// Surprises returns those of an empty cell, by column.
func (p Profile) Surprises() []float64 { return p.surprises(0) }

// surprises leaves out so many of the reference rows with an empty cell.
func (p Profile) surprises(own float64) []float64 {
	s := make([]float64, len(p.Empty))
	for j, c := range p.Empty {
		s[j] = math.Log(float64(p.Rows+1) / (max(c-own, 0) + 1))
	}
	return s
}

// Limits returns Rarest and Together with room for rounding.
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

// Unseen reports which rows of m have emptier cells than the reference rows. It
// returns nil if none has.
func (p Profile) Unseen(m blas32.General) []bool { return p.unseen(m, p.Surprises()) }

// UnseenOwn is Unseen for rows that are themselves reference rows: each is compared
// with the others.
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

// Restored refuses counts that no rows give.
func (p *Profile) Restored() error {
	for j, c := range p.Empty {
		if c != math.Trunc(c) || c > float64(p.Rows) {
			return fmt.Errorf("column %d is empty in %v of %d rows", j, c, p.Rows)
		}
	}
	return nil
}

// unusual is the probability with which at least one column of rows like the
// reference rows is called unusual without reason.
const unusual = 0.01

// Unusual reports whether a column is empty in more of so many further rows than the
// reference rows let expect: it never was empty in these, or Fisher's exact test says
// so, accounting for the number of columns that are looked at.
func Unusual(empty, further, referenceEmpty, reference, columns int) bool {
	switch {
	case empty == 0:
		return false
	case referenceEmpty == 0:
		return true
	// Equal shares are common, and no reason for a sum over thousands of terms.
	case float64(empty)*float64(reference) <= float64(referenceEmpty)*float64(further):
		return false
	}
	return hypothesis.Hypergeometric(referenceEmpty, reference, referenceEmpty+empty, reference+further) <= unusual/float64(columns)
}
