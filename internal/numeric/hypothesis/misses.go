package hypothesis

import (
	"math"
	"sort"
)

// Misses is how many of n calibration rows may be missed for a promise, in the
// words of conformal prediction ⌊α(n+1)⌋. Over draws of the calibration rows the
// probability of a miss is then Beta(Allowed, n+1−Allowed) at most, and the
// number of misses among fresh rows beta-binomial.
//
// References: Vovk (2012), Conditional Validity of Inductive Conformal
// Predictors; Angelopoulos & Bates (2021), A Gentle Introduction to Conformal
// Prediction, appendix C.
type Misses struct{ Allowed, Calibration int }

// AtLeast is the probability of count misses or more among fresh rows.
//
// Where fresh and calibration rows are in any order alike, it is that of fewer than
// Allowed calibration rows among the count+Allowed−1 most extreme of all.
func (m Misses) AtLeast(count, rows int) float64 {
	switch {
	case count <= 0:
		return 1
	case count > rows || m.Allowed == 0:
		return 0
	}
	return Hypergeometric(m.Allowed-1, count+m.Allowed-1, m.Calibration, m.Calibration+rows)
}

// AtMost is the probability of count misses or fewer among fresh rows.
func (m Misses) AtMost(count, rows int) float64 {
	switch {
	case count < 0:
		return 0
	case count >= rows || m.Allowed == 0:
		return 1
	}
	// At least Allowed calibration rows are among so many, and no more than count
	// of the others.
	return Hypergeometric(count, count+m.Allowed, rows, m.Calibration+rows)
}

// Critical is the least number of misses among fresh rows of which so many or
// more have less than that probability; it may be rows+1.
func (m Misses) Critical(rows int, probability float64) int {
	return sort.Search(rows+1, func(count int) bool { return m.AtLeast(count, rows) < probability })
}

// Power is the probability that misses with probability p among fresh rows are
// at least as many as Critical says.
func (m Misses) Power(rows int, probability, p float64) float64 {
	return Binomial(m.Critical(rows, probability), rows, p)
}

// mostRows bounds what is searched among, and wavers how many more misses may still be
// too few where some are enough.
const mostRows, wavers = 1 << 20, 5

// RowsFor is the least number of fresh rows from which on Power is at least power, or
// 0 if that takes more than a million.
func (m Misses) RowsFor(power, probability, p float64) int {
	return rowsFor(m.AtLeast, power, probability, p)
}

// rowsFor is RowsFor of a test with any law of misses. Power falls where one more miss
// is critical and rises from there to the next: rows are enough where it no longer
// falls below power.
func rowsFor(atLeast func(count, rows int) float64, power, probability, p float64) int {
	// first is the least number of rows of which count misses or more are critical.
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
	// Rounding counts to whole misses lets power waver about its mark.
	for next := last; next < last+wavers; next++ {
		if !enough(next) {
			last = next + 1
		}
	}
	rows := first(last)
	if rows == mostRows {
		return 0
	}
	// Power may reach its mark in the stretch before, and then not fall below it.
	from := first(last - 1)
	return from + sort.Search(rows-from, func(i int) bool { return Binomial(last-1, from+i, p) >= power })
}

// Need is what it takes to tell a promise that is kept from one that is broken.
type Need struct {
	Rows int // fresh rows, or 0 if these are more than a million
	// Calibration is how many calibration rows it takes as well, or 0 if there are enough.
	Calibration int
}

// patience is how many times as many fresh rows as it takes at best are worth more than
// other calibration rows: with few of those the number grows beyond all bounds.
// better is the same after calibration with more.
const patience, better = 4, 2

// Needed is what it takes for Power to be at least power at α. More calibration rows
// never need more fresh rows. Numbers are rounded up to two digits.
func (m Misses) Needed(alpha, power, probability, p float64) Need {
	best := independent(alpha, power, probability, p)
	if best == 0 || patience*best >= mostRows {
		return Need{}
	}
	// With as many misses allowed, fewer calibration rows are the harder case: without
	// this, one row more could take more fresh rows.
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

// independent is RowsFor of misses with a probability of α that no calibration rows vary.
func independent(alpha, power, probability, p float64) int {
	return rowsFor(func(count, rows int) float64 { return Binomial(count, rows, alpha) }, power, probability, p)
}

// Independent is how many rows it takes, rounded up to two digits, if this share of them
// is counted and a miss of a counted row has a probability of α; 0 if that is more than
// a million.
func Independent(alpha, share, power, probability, p float64) int {
	rows := float64(independent(alpha, power, probability, p)) / share
	if !(rows < mostRows) {
		return 0
	}
	return roundUp(int(math.Ceil(rows)))
}

// roundUp is the least number of two digits, and zeros, that is at least n.
func roundUp(n int) int {
	unit := 1
	for n > 100*unit {
		unit *= 10
	}
	return (n + unit - 1) / unit * unit
}
