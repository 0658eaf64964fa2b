package calibrate

import (
	"math/rand/v2"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// uniform is a number in [0,1) for a row, the same for an equal seed and row.
func uniform(seed, row, stream uint64) float64 {
	return rand.New(rand.NewPCG(seed, row*sampleStride+stream)).Float64()
}

// tauStream keeps the random number τ that breaks the ties of a row apart from
// other uses of the same seed, calibrationStream what calibration rows draw, clusterStream
// which of them divide classes into clusters, and rectifyStream which learn scores.
const (
	tauStream         = 0x746175
	calibrationStream = 0x63616c
	clusterStream     = 0x636c75
	rectifyStream     = 0x726370
)

// limit is the threshold at α of rows that draw a τ each: open where τ exceeds
// cut. Were ties broken by a random order of the n calibration rows and the new
// one, the new one, with a score equal to that of rank k, would be covered if it
// came before the k-th; of the equal+1 places it can take among its equals,
// k−below are.
//
// This is the smoothed conformal predictor at the level that n rows can have,
// α rounded down to a multiple of 1/(n+1), at which scores without ties need no
// τ.
type limit struct{ score, cut float64 }

func limitAt(sorted []float64, alpha float64) limit {
	alpha = hypothesis.Forgive(alpha)
	n := len(sorted)
	l := limit{Conformal{sorted}.Threshold(alpha), 1}
	if k := n + 1 - hypothesis.Allowed(n, alpha); k >= 1 && k <= n {
		below, equal := ties(sorted, l.score)
		l.cut = float64(k-below) / float64(equal+1)
	}
	return l
}

func (l limit) at(tau float64) threshold { return threshold{l.score, tau > l.cut} }

// smoothed is the threshold at α of a row with τ.
func smoothed(sorted []float64, alpha, tau float64) threshold {
	checkTau(tau)
	return limitAt(sorted, alpha).at(tau)
}
