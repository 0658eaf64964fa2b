package calibrate

import (
	"math/rand/v2"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// uniform returns a random number in [0,1) for a row. Equal seeds, rows and streams give equal
// numbers.
func uniform(seed, row, stream uint64) float64 {
	return rand.New(rand.NewPCG(seed, row*sampleStride+stream)).Float64()
}

// Each use of a seed has its own stream of random numbers. tauStream draws the τ that breaks
// the ties of a new row, and calibrationStream draws this number for calibration rows.
// clusterStream draws the calibration rows that cluster the classes, and rectifierStream the
// rows that train the rectifier. ellipsoidStream draws the rows from which the shape of ellipsoids
// is estimated.
const (
	tauStream         = 0x746175
	calibrationStream = 0x63616c
	clusterStream     = 0x636c75
	rectifierStream   = 0x726370
	ellipsoidStream   = 0x656c6c
)

// randomThreshold is a threshold at α for rows that each draw a random τ. A row with τ > cutoff
// gets an open threshold, and other rows get a closed one.
//
// The cutoff makes coverage exact. The threshold is the k-th smallest of n calibration
// scores. Let below be the number of scores that are lower than the threshold, and equal
// the number of scores that are equal to it. If a new row has the same score, a random
// order of the tied rows gives it one of equal+1 places. The row is covered if it comes
// before the k-th calibration row, which is the case for k−below of these places.
//
// This is the smoothed conformal predictor at α rounded down to a multiple of 1/(n+1). At such
// a level, scores without ties need no τ.
type randomThreshold struct{ score, cutoff float64 }

func randomThresholdAt(sorted []float64, alpha float64) randomThreshold {
	alpha = hypothesis.Forgive(alpha)
	n := len(sorted)
	l := randomThreshold{Conformal{sorted}.Threshold(alpha), 1}
	if k := n + 1 - hypothesis.Allowed(n, alpha); k >= 1 && k <= n {
		below, equal := countTies(sorted, l.score)
		l.cutoff = float64(k-below) / float64(equal+1)
	}
	return l
}

// withTau returns the threshold of a row that drew tau.
func (l randomThreshold) withTau(tau float64) threshold { return threshold{l.score, tau > l.cutoff} }

// smoothedThreshold returns the threshold at α for a row that drew tau.
func smoothedThreshold(sorted []float64, alpha, tau float64) threshold {
	checkTau(tau)
	return randomThresholdAt(sorted, alpha).withTau(tau)
}
