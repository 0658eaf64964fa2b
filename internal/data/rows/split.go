package rows

import (
	"math"
	"math/rand/v2"
	"sort"
)

// DefaultFraction is the default fraction of rows to hold out for calibration.
const DefaultFraction = 0.2

// DefaultAlpha is the default false-alarm rate, and DefaultLevel the default coverage of
// intervals.
const (
	DefaultAlpha = 0.05
	DefaultLevel = 0.9
)

// Given and SplitOff name the origin of calibration rows: given by the user, or split off
// the fit rows.
const (
	Given    = "given"
	SplitOff = "split"
)

// Split divides the rows 0…n−1 at random into fit rows and calibration rows, both in
// increasing order. There are round(fraction·n) calibration rows, and neither part is empty
// if n ≥ 2 and fraction < 1. Equal arguments give equal splits. Split panics if n is
// negative or if fraction is not in (0,1].
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

// Folds divides the rows 0…n−1 at random into k folds, or into n folds if n is less than k.
// The sizes of the folds differ by at most one, and each fold is in increasing order. Equal
// arguments give equal folds. Folds panics if n is negative or k is less than 1.
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

// splitStream selects the random stream of splits, so that other uses of the same seed get
// other random numbers. The number is "split" in ASCII.
const splitStream = 0x73706c6974

func heldOut(n int, fraction float64) int {
	held := int(math.Round(fraction * float64(n)))
	if n >= 2 && fraction < 1 {
		held = min(max(held, 1), n-1)
	}
	return held
}
