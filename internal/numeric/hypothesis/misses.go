package hypothesis

import (
	"math"
	"sort"
)

// Misses is the law of misses under a conformal guarantee that allows Allowed = ⌊α(n+1)⌋ of n
// calibration rows to be missed. Over draws of the calibration rows, the probability of a miss
// is at most Beta(Allowed, n+1−Allowed), and the number of misses among new rows is
// beta-binomial.
//
// References: Vovk (2012), Conditional Validity of Inductive Conformal
// Predictors; Angelopoulos & Bates (2021), A Gentle Introduction to Conformal
// Prediction, appendix C.
type Misses struct{ Allowed, Calibration int }

// AtLeast returns the probability of count misses or more among new rows.
//
// If new rows and calibration rows are exchangeable, this is the probability that fewer than
// Allowed calibration rows are among the count+Allowed−1 most extreme of all rows.
func (m Misses) AtLeast(count, rows int) float64 {
	switch {
	case count <= 0:
		return 1
	case count > rows || m.Allowed == 0:
		return 0
	}
	return Hypergeometric(m.Allowed-1, count+m.Allowed-1, m.Calibration, m.Calibration+rows)
}

// AtMost returns the probability of count misses or fewer among new rows.
func (m Misses) AtMost(count, rows int) float64 {
	switch {
	case count < 0:
		return 0
	case count >= rows || m.Allowed == 0:
		return 1
	}
	// The most extreme rows contain at least Allowed calibration rows, and at most count
	// others.
	return Hypergeometric(count, count+m.Allowed, rows, m.Calibration+rows)
}

// Critical returns the least count such that count or more misses among new rows have less
// than the given probability. It may be rows+1.
func (m Misses) Critical(rows int, probability float64) int {
	return sort.Search(rows+1, func(count int) bool { return m.AtLeast(count, rows) < probability })
}

// Power returns the probability of at least Critical misses among new rows, if each is missed
// with probability p.
func (m Misses) Power(rows int, probability, p float64) float64 {
	return Binomial(m.Critical(rows, probability), rows, p)
}

// mostRows limits the search. wavers limits how many more misses are tried, because power can
// fall again after it was reached.
const mostRows, wavers = 1 << 20, 5

// RowsFor returns the least number of new rows from which on Power is at least power, or 0 if
// that exceeds a million.
func (m Misses) RowsFor(power, probability, p float64) int {
	return rowsFor(m.AtLeast, power, probability, p)
}

// rowsFor is RowsFor for a test with any law of misses. Power falls at each number of rows
// where the critical count grows by one, and rises in between. Rows suffice once it no longer
// falls below power.
func rowsFor(atLeast func(count, rows int) float64, power, probability, p float64) int {
	// first returns the least number of rows whose critical count is at least count.
	first := func(count int) int {
		return sort.Search(mostRows, func(rows int) bool { return atLeast(count-1, rows) >= probability })
	}
	enough := func(count int) bool {
		rows := first(count)
		return rows == mostRows || Binomial(count, rows, p) >= power
	}
	last := 1
	for ; !enough(last); last *= 2 {
	}
	last = last/2 + 1 + sort.Search(last-last/2-1, func(i int) bool { return enough(last/2 + 1 + i) })
	// Because counts are whole numbers, power fluctuates around the target.
	for next := last; next < last+wavers; next++ {
		if !enough(next) {
			last = next + 1
		}
	}
	rows := first(last)
	if rows == mostRows {
		return 0
	}
	// Power may reach the target already for the count before, and then stay above it.
	from := first(last - 1)
	return from + sort.Search(rows-from, func(i int) bool { return Binomial(last-1, from+i, p) >= power })
}

// Need is the number of rows that can tell whether a guarantee is met or violated.
type Need struct {
	Rows int // new rows, or 0 if more than a million are needed
	// Calibration is the number of calibration rows that are needed as well, or 0 if there are
	// enough.
	Calibration int
}

// patience is the factor over the least possible number of new rows above which recalibration
// is advised instead, because with few calibration rows the number of new rows grows without
// bound. better is that factor after recalibration.
const patience, better = 4, 2

// Needed returns the rows for which Power is at least power at α. More calibration rows never
// need more new rows. Numbers are rounded up to two significant digits.
func (m Misses) Needed(alpha, power, probability, p float64) Need {
	best := independent(alpha, power, probability, p)
	if best == 0 || patience*best >= mostRows {
		return Need{}
	}
	// Among numbers of calibration rows that allow the same number of misses, the smallest is
	// the hardest case. Without this, one row more could need more new rows.
	hardest := func(allowed int) Misses { return Misses{allowed, LeastRows(Forgive(alpha) / float64(allowed))} }
	if m.Allowed > 0 {
		if m = hardest(m.Allowed); m.Power(patience*best, probability, p) >= power {
			return Need{Rows: roundUp(m.RowsFor(power, probability, p))}
		}
	}
	tells := func(allowed int) bool { return hardest(allowed).Power(better*best, probability, p) >= power }
	high := 1
	for ; !tells(high); high *= 2 {
	}
	allowed := high/2 + 1 + sort.Search(high-high/2-1, func(i int) bool { return tells(high/2 + 1 + i) })
	calibration := roundUp(hardest(allowed).Calibration)
	m = hardest(Allowed(calibration, Forgive(alpha)))
	return Need{Rows: roundUp(m.RowsFor(power, probability, p)), Calibration: calibration}
}

// independent is RowsFor for misses with probability exactly α, without calibration rows.
func independent(alpha, power, probability, p float64) int {
	return rowsFor(func(count, rows int) float64 { return Binomial(count, rows, alpha) }, power, probability, p)
}

// Independent returns how many rows are needed, rounded up to two significant digits, if only
// the given fraction of them is counted and each counted row is missed with probability α. It
// returns 0 if more than a million are needed.
func Independent(alpha, share, power, probability, p float64) int {
	rows := float64(independent(alpha, power, probability, p)) / share
	if !(rows < mostRows) {
		return 0
	}
	return roundUp(int(math.Ceil(rows)))
}

// roundUp returns the least number of at most two significant digits that is at least n.
func roundUp(n int) int {
	unit := 1
	for n > 100*unit {
		unit *= 10
	}
	return (n + unit - 1) / unit * unit
}
