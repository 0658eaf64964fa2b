package calibrate

import (
	"math"

	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
)

// CalibrationScores returns the scores of the calibration rows, for each target or for the joint
// box, in the order of the rows. With the score "rcp", these are the rows that did not train the
// rectifier. The score "ridge" has no score of a row without the others, and counts as "cqr-r"
// here, in Scores and in PredictMargins.
func (v Intervals) CalibrationScores() [][]float64 {
	scores := make([][]float64, max(len(v.boxes), len(v.oneSided)))
	if len(v.targets) == 0 {
		return scores
	}
	quantiles, y := make([][]float32, len(v.targets)), make([]float32, len(v.targets))
	for i := range v.targets[0].Y {
		for t, q := range v.targets {
			quantiles[t], y[t] = q.row(i), q.Y[i]
		}
		for b, score := range v.Scores(quantiles, y) {
			scores[b] = append(scores[b], score)
		}
	}
	return scores
}

// Scores returns the nonconformity score of a row for each target, or one score for a joint
// box. quantiles[t] holds the predicted quantiles of target t at its levels, and y the true
// values. An interval contains the targets whose score is at most its margin (see
// PredictMargins).
//
// A score is NaN if the target is NaN, or if an end of the interval starts from a quantile that
// is not finite. The interval of such a row is infinite, so do not ask an Adaptive for its
// threshold. If you did, call Adaptive.Cancel.
func (v Intervals) Scores(quantiles [][]float32, y []float32) []float64 {
	if v.options.Side != "" {
		scores := make([]float64, len(v.targets))
		for t, q := range v.targets {
			scores[t] = math.NaN()
			if end := q.quantile(quantiles[t], sidedLevel(v.options.Side, v.alpha)); isFinite(end) {
				scores[t] = sidedScore(v.options.Side, end, float64(y[t]))
			}
		}
		return scores
	}
	scores := make([]float64, len(v.boxes))
	for b := range scores {
		scores[b] = math.Inf(-1)
	}
	for t, q := range v.targets {
		b := t * len(v.boxes) / len(v.targets)
		score := math.NaN()
		if base := v.options.baseInterval(q, quantiles[t], v.alpha, v.rectifiers[t]); base.isFinite() {
			score = base.score(float64(y[t]))
		}
		scores[b] = max(scores[b], score)
	}
	return scores
}

// PredictMargins writes the ends of each target's interval for one row, like Predict, but with
// the given margins instead of the calibrated ones. There is one margin for each target, or one
// for a joint box, for example the threshold of an Adaptive. A margin of +Inf makes intervals
// infinite. If lower > upper, the interval is empty, which is the case for a margin of −Inf. At
// other margins, an interval is infinite if one of its ends starts from a quantile that is not
// finite, because nothing is known about the target. Intervals are never smoothed.
func (v Intervals) PredictMargins(lower, upper []float64, quantiles [][]float32, margins []float64) {
	for t, q := range v.targets {
		limit := threshold{score: margins[t*len(margins)/len(v.targets)]}
		lower[t], upper[t] = math.Inf(-1), math.Inf(1)
		if limit.score == math.Inf(-1) {
			lower[t], upper[t] = math.Inf(1), math.Inf(-1)
		} else if v.options.Side == "" {
			if base := v.options.baseInterval(q, quantiles[t], v.alpha, v.rectifiers[t]); base.isFinite() {
				lower[t], upper[t] = limit.lowerEnd(base.lo, base.lowerUnit), limit.upperEnd(base.hi, base.upperUnit)
			}
		} else if end := q.quantile(quantiles[t], sidedLevel(v.options.Side, v.alpha)); !isFinite(end) {
			continue
		} else if v.options.Side == conformal.Lower {
			lower[t] = limit.lowerEnd(end, 1)
		} else {
			upper[t] = limit.upperEnd(end, 1)
		}
	}
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
