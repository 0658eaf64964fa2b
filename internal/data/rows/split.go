package rows

import (
	"math"
	"math/rand/v2"
	"sort"
)

// DefaultFraction is the default fraction of rows that is held out for calibration.
const DefaultFraction = 0.2

// DefaultAlpha is the default false-alarm rate, and DefaultLevel the default coverage of
// intervals.
const (
	DefaultAlpha = 0.05
	DefaultLevel = 0.9
)

// Where calibration rows come from: given separately, or split off the fit rows.
const (
	Given    = "given"
	SplitOff = "split"
)

// Split divides the rows 0…n−1 at random into fit rows and calibration rows, both in
// increasing order. There are round(fraction·n) calibration rows, and neither part is empty if
// n ≥ 2 and fraction < 1. Equal arguments give equal splits. Split panics if n is negative or
// fraction outside (0,1].
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

// Folds divides the rows 0…n−1 at random into k parts, or fewer if there are fewer rows. Their
// sizes differ by at most one, and each is in increasing order. Equal arguments give equal
// parts. Folds panics if n is negative or k below 1.
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

// splitStream separates the permutation of a split from other uses of the same seed.
const splitStream = 0x73706c6974

func heldOut(n int, fraction float64) int {
	held := int(math.Round(fraction * float64(n)))
	if n >= 2 && fraction < 1 {
		held = min(max(held, 1), n-1)
	}
	return held
}
