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

// Streams keep uses of the same seed apart. tauStream draws the τ that breaks the ties of a
// row, and calibrationStream the numbers of calibration rows. clusterStream chooses the
// calibration rows that cluster the classes, and rectifyStream those that train the rectifier.
const (
	tauStream         = 0x746175
	calibrationStream = 0x63616c
	clusterStream     = 0x636c75
	rectifyStream     = 0x726370
)

// limit is the threshold at α for rows that each draw a τ. It is open if τ exceeds cut.
//
// Suppose that a random order breaks the ties of the n calibration rows and the new one, whose
// score equals the k-th smallest. The new row is covered if it comes before the k-th. There
// are equal+1 possible positions among rows with this score, and k−below of them are before
// the k-th.
//
// This is the smoothed conformal predictor at a level that n rows can have: α rounded down to
// a multiple of 1/(n+1). At such a level, scores without ties need no τ.
type randomThreshold struct{ score, cut float64 }

func randomThresholdAt(sorted []float64, alpha float64) randomThreshold {
	alpha = hypothesis.Forgive(alpha)
	n := len(sorted)
	l := randomThreshold{Conformal{sorted}.Threshold(alpha), 1}
	if k := n + 1 - hypothesis.Allowed(n, alpha); k >= 1 && k <= n {
		below, equal := ties(sorted, l.score)
		l.cut = float64(k-below) / float64(equal+1)
	}
	return l
}

func (l randomThreshold) withTau(tau float64) threshold { return threshold{l.score, tau > l.cut} }

// smoothed returns the threshold at α for a row with τ.
func smoothedThreshold(sorted []float64, alpha, tau float64) threshold {
	checkTau(tau)
	return randomThresholdAt(sorted, alpha).withTau(tau)
}
