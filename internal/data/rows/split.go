package rows

import (
	"math"
	"math/rand/v2"
	"sort"
)

// DefaultFraction is the share of rows that is held out for calibration where
// nothing else is asked.
const DefaultFraction = 0.2

// DefaultAlpha is the rate of false alarms, and DefaultLevel the coverage of
// intervals, where nothing else is asked.
const (
	DefaultAlpha = 0.05
	DefaultLevel = 0.9
)

// Where the rows to calibrate on came from: they were given apart from those to fit
// on, or split off them.
const (
	Given    = "given"
	SplitOff = "split"
)

// Split divides the rows 0…n−1 at random into rows to fit on and rows to
// calibrate on. The calibration part has round(fraction·n) rows, and neither
// part is empty if n ≥ 2 and fraction < 1. Both are increasing. The same
// arguments give the same split. Split panics if n is negative or fraction
// outside (0,1].
func Split(n int, fraction float64, seed uint64) (fit, cal []int) {
	if n < 0 || !(fraction > 0 && fraction <= 1) {
		panic("rows: split of a negative number of rows, or fraction outside (0,1]")
	}
	rows := rand.New(rand.NewPCG(seed, splitStream)).Perm(n)
	held := heldOut(n, fraction)
	cal, fit = rows[:held:held], rows[held:]
	sort.Ints(cal)
	sort.Ints(fit)
	return fit, cal
}

// Folds divides the rows 0…n−1 at random into k parts, whose sizes differ by at
// most one; fewer than k where there are fewer rows. Each is increasing. The same
// arguments give the same parts. Folds panics if n is negative or k below 1.
func Folds(n, k int, seed uint64) [][]int {
	if n < 0 || k < 1 {
		panic("rows: folds of a negative number of rows, or none")
	}
	rows := rand.New(rand.NewPCG(seed, splitStream)).Perm(n)
	folds := make([][]int, min(n, k))
	for i := range folds {
		end := (i + 1) * n / len(folds)
		folds[i] = rows[i*n/len(folds) : end : end]
		sort.Ints(folds[i])
	}
	return folds
}

// splitStream keeps the permutation of a split apart from other uses of the
// same seed.
const splitStream = 0x73706c6974

func heldOut(n int, fraction float64) int {
	held := int(math.Round(fraction * float64(n)))
	if n >= 2 && fraction < 1 {
		held = min(max(held, 1), n-1)
	}
	return held
}
