package calibrate

import "math/rand/v2"

// Tau is the random number τ, uniform in [0,1), that breaks the ties of a row
// in SmoothedInterval and its like. Equal seed and row give an equal τ; row
// numbers what is predicted, and every interval wants a number of its own.
func Tau(seed, row uint64) float64 {
	return uniform(seed, row, tauStream)
}

// uniform is a number in [0,1) for a row.
func uniform(seed, row, stream uint64) float64 {
	return rand.New(rand.NewPCG(seed, row*sampleStride+stream)).Float64()
}

// tauStream keeps τ apart from other uses of the same seed, and calibrationStream
// what calibration rows draw.
const (
	tauStream         = 0x746175
	calibrationStream = 0x63616c
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
	alpha = forgive(alpha)
	n := len(sorted)
	l := limit{upper(sorted, alpha), 1}
	if k := n + 1 - allowed(n, alpha); k >= 1 && k <= n {
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

// SmoothedInterval is Interval without its excess where scores tie: it covers
// with probability ExpectedCoverage(n, α), no less and no more, where τ is
// drawn uniformly from [0,1) for each row, such as by Tau. Scores tie where
// targets or quantiles take few values, such as counts, grades or the leaves of
// trees, and Interval then covers more.
//
// τ decides whether targets that score exactly the margin are covered: the
// interval is either closed, as for τ=0, or open, as for τ=1, and without ties
// the two cover alike. An open end is moved inwards to the next floating-point
// number whose score is less than the margin, so that in either case the
// interval covers y if lower ≤ y ≤ upper, in float64. An interval with
// lower > upper is empty: unlike Interval, it does not become its midpoint. It
// panics if τ is not in [0,1].
//
// The promise is over draws of τ too: an interval drawn again, or chosen among
// several draws, has none.
//
// Reference: Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a
// Random World, section 2.2, smoothed conformal predictors.
func (c CQR) SmoothedInterval(lo, hi, alpha, tau float64) (lower, upper float64) {
	return smoothed(c.Scores, alpha, tau).interval(lo, hi, 1)
}

// SmoothedBound is Bound without its excess where scores tie, as
// CQR.SmoothedInterval says.
func (o OneSided) SmoothedBound(quantile, alpha, tau float64) float64 {
	return o.end(smoothed(o.Scores, alpha, tau), quantile)
}

// SmoothedBox is Box without its excess where scores tie, as
// CQR.SmoothedInterval says of intervals: one τ opens or closes the box as a
// whole. A box with an empty interval is empty.
func (j Joint) SmoothedBox(lo, hi []float64, alpha, tau float64) (lower, upper []float64) {
	return j.box(smoothed(j.Scores, alpha, tau), lo, hi)
}
