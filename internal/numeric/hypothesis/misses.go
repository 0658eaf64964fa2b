package hypothesis

import (
	"math"
	"sort"
)

// Misses describes the distribution of misses under a conformal guarantee. With n
// calibration rows (Calibration), the guarantee allows ⌊α(n+1)⌋ of n+1 exchangeable rows to
// be missed (Allowed). Over draws of the calibration rows, the probability of a miss is
// Beta(Allowed, n+1−Allowed) distributed, or smaller if scores tie. The number of misses
// among new rows is then beta-binomial, or smaller.
//
// References: Vovk (2012), Conditional Validity of Inductive Conformal
// Predictors; Angelopoulos & Bates (2021), A Gentle Introduction to Conformal
// Prediction, appendix C.
type Misses struct{ Allowed, Calibration int }

// AtLeast returns the probability of at least count misses among new rows.
//
// If new rows and calibration rows are exchangeable, they can be ranked together. There are at
// least count misses exactly if fewer than Allowed calibration rows are among the
// count+Allowed−1 most extreme rows.
func (m Misses) AtLeast(count, rows int) float64 {
	switch {
	case count <= 0:
		return 1
	case count > rows || m.Allowed == 0:
		return 0
	}
	return Hypergeometric(m.Allowed-1, count+m.Allowed-1, m.Calibration, m.Calibration+rows)
}

// AtMost returns the probability of at most count misses among new rows.
func (m Misses) AtMost(count, rows int) float64 {
	switch {
	case count < 0:
		return 0
	case count >= rows || m.Allowed == 0:
		return 1
	}
	// There are at most count misses if at most count new rows are among the count+Allowed
	// most extreme of all rows.
	return Hypergeometric(count, count+m.Allowed, rows, m.Calibration+rows)
}

// Critical returns the smallest count for which the probability of at least count misses among
// new rows is below the given probability. The result can be rows+1.
func (m Misses) Critical(rows int, probability float64) int {
	return sort.Search(rows+1, func(count int) bool { return m.AtLeast(count, rows) < probability })
}

// Power returns the probability of at least Critical misses among new rows, if each of them is
// missed with probability p.
func (m Misses) Power(rows int, probability, p float64) float64 {
	return Binomial(m.Critical(rows, probability), rows, p)
}

// maxRows is the largest number of rows that a search considers.
const maxRows = 1 << 20

// extraCounts is the number of larger critical counts that a search tries after it has reached
// the power, because the power can fall again.
const extraCounts = 5

// RowsFor returns the smallest number of new rows such that Power is at least power for
// this number and for all larger numbers. It returns 0 if this number exceeds a million.
func (m Misses) RowsFor(power, probability, p float64) int {
	return rowsFor(m.AtLeast, power, probability, p)
}

// rowsFor is RowsFor for any distribution of misses. The power falls at each number of rows
// at which the critical count grows by one, and rises in between. rowsFor returns the
// smallest number of rows at and above which the power is at least power.
func rowsFor(atLeast func(count, rows int) float64, power, probability, p float64) int {
	// firstRows returns the smallest number of rows whose critical count is at least count.
	firstRows := func(count int) int {
		return sort.Search(maxRows, func(rows int) bool { return atLeast(count-1, rows) >= probability })
	}
	hasPower := func(count int) bool {
		rows := firstRows(count)
		return rows == maxRows || Binomial(count, rows, p) >= power
	}
	last := 1
	for ; !hasPower(last); last *= 2 {
	}
	last = last/2 + 1 + sort.Search(last-last/2-1, func(i int) bool { return hasPower(last/2 + 1 + i) })
	// Counts are whole numbers, so the power of successive counts fluctuates around the
	// target.
	for next := last; next < last+extraCounts; next++ {
		if !hasPower(next) {
			last = next + 1
		}
	}
	rows := firstRows(last)
	if rows == maxRows {
		return 0
	}
	// The power may already reach the target with the previous count, and stay above it.
	from := firstRows(last - 1)
	return from + sort.Search(rows-from, func(i int) bool { return Binomial(last-1, from+i, p) >= power })
}

// Need holds the numbers of rows that are needed to test whether a guarantee is met or
// violated.
type Need struct {
	Rows int // new rows, or 0 if more than a million could be needed
	// Calibration is the total number of calibration rows that the test needs, or 0 if there
	// are already enough.
	Calibration int
}

// With few calibration rows, the number of new rows that a test needs grows without bound. If
// it exceeds maxFactor times the smallest possible number, more calibration rows are advised
// instead. They bring it down to at most advisedFactor times the smallest number.
const maxFactor, advisedFactor = 4, 2

// Needed returns the numbers of rows for which Power is at least power at level α. More
// calibration rows never need more new rows. Numbers are rounded up to two significant digits.
func (m Misses) Needed(alpha, power, probability, p float64) Need {
	fewest := independentRows(alpha, power, probability, p)
	if fewest == 0 || maxFactor*fewest >= maxRows {
		return Need{}
	}
	// Several numbers of calibration rows allow the same number of misses. The smallest of
	// them has the lowest power, so use it for all of them. Otherwise one more calibration row
	// could need more new rows.
	hardest := func(allowed int) Misses { return Misses{allowed, LeastRows(Forgive(alpha) / float64(allowed))} }
	if m.Allowed > 0 {
		if m = hardest(m.Allowed); m.Power(maxFactor*fewest, probability, p) >= power {
			return Need{Rows: roundUp(m.RowsFor(power, probability, p))}
		}
	}
	hasPower := func(allowed int) bool { return hardest(allowed).Power(advisedFactor*fewest, probability, p) >= power }
	high := 1
	for ; !hasPower(high); high *= 2 {
	}
	allowed := high/2 + 1 + sort.Search(high-high/2-1, func(i int) bool { return hasPower(high/2 + 1 + i) })
	calibration := roundUp(hardest(allowed).Calibration)
	m = hardest(Allowed(calibration, Forgive(alpha)))
	return Need{Rows: roundUp(m.RowsFor(power, probability, p)), Calibration: calibration}
}

// independentRows is RowsFor if each row is missed independently with probability exactly α.
func independentRows(alpha, power, probability, p float64) int {
	return rowsFor(func(count, rows int) float64 { return Binomial(count, rows, alpha) }, power, probability, p)
}

// Independent returns the number of rows that a test needs if only the given fraction of rows
// is counted. Each counted row is missed independently with probability α. The number is
// rounded up to two significant digits, and is 0 if it exceeds a million.
func Independent(alpha, fraction, power, probability, p float64) int {
	rows := float64(independentRows(alpha, power, probability, p)) / fraction
	if !(rows < maxRows) {
		return 0
	}
	return roundUp(int(math.Ceil(rows)))
}

// roundUp returns the smallest number with at most two significant digits that is at least n.
func roundUp(n int) int {
	unit := 1
	for n > 100*unit {
		unit *= 10
	}
	return (n + unit - 1) / unit * unit
}
