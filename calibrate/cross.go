package calibrate

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// CrossIntervals computes CV+ intervals: all calibration rows both teach the interval models and
// calibrate the intervals. The rows are divided into K folds, and interval model k learns from
// all rows outside fold k. The score of a calibration row comes from the model that did not
// learn from it. An interval contains a target unless, with at least ⌈(1−α)(n+1)⌉ of the n
// calibration rows, the target has a larger score than the row itself, both computed by the
// model of that row's fold.
//
// With K folds of equal size, intervals of n calibration rows and of an exchangeable new row
// miss with probability at most 2α + min{2(1−1/K)/(n/K+1), (1−K/n)/(K+1)}. In practice they
// miss with a probability near α, because the models of different folds predict nearly the same.
// Intervals of one-sided and joint options have the same guarantee, because the proof compares
// scores only.
//
// References: Barber, Candès, Ramdas & Tibshirani (2021), Predictive Inference with the
// Jackknife+, theorem 4; Vovk (2015), Cross-Conformal Predictors; Gupta, Kuchibhotla & Ramdas
// (2022), Nested Conformal Prediction and Quantile Out-of-Bag Ensemble Methods, for all kinds of
// score.
type CrossIntervals struct {
	options IntervalOptions
	alpha   float64
	targets []QuantileCalibration
	folds   []int
	scores  [][]float64 // scores of the calibration rows, for each target or for the joint box
}

// NewCrossIntervals calibrates CV+ intervals at α. The targets hold the quantiles of each
// calibration row by the model that did not learn from it. folds[i] is the fold of row i, and
// folds are counted from 0. NewCrossIntervals supports neither IntervalOptions.Smoothed, nor the
// scores "rcp" and "ridge", nor weights.
func NewCrossIntervals(targets []QuantileCalibration, folds []int, o IntervalOptions, alpha float64) (CrossIntervals, error) {
	switch {
	case o.Smoothed:
		return CrossIntervals{}, errors.New("CV+ intervals cannot be smoothed; leave one of the two out")
	case o.Score == conformal.RCP:
		return CrossIntervals{}, fmt.Errorf("CV+ intervals cannot have the score %q, which trains on half of the calibration rows; choose another score", o.Score)
	case o.Score == conformal.Ridge:
		return CrossIntervals{}, fmt.Errorf("CV+ intervals cannot have the score %q, which learns from all calibration rows; choose another score", o.Score)
	}
	for _, q := range targets {
		if len(q.Y) != len(folds) {
			return CrossIntervals{}, fmt.Errorf("there are %d calibration rows, but folds of %d", len(q.Y), len(folds))
		}
		if q.Weights != nil {
			return CrossIntervals{}, errors.New("CV+ intervals cannot have weights of calibration rows")
		}
	}
	if slices.ContainsFunc(folds, func(k int) bool { return k < 0 }) {
		return CrossIntervals{}, errors.New("the fold of a calibration row is negative")
	}
	v, err := NewIntervals(targets, o, alpha)
	return CrossIntervals{o, alpha, targets, folds, v.CalibrationScores()}, err
}

// Predict writes the ends of each target's interval for one row. quantiles[k][t] holds the
// quantiles of target t by interval model k, at the levels of the target. Ends are infinite if
// there are too few calibration rows for α.
func (v CrossIntervals) Predict(lower, upper []float64, quantiles [][][]float32) {
	n := len(v.folds)
	rank := max(1, n+1-hypothesis.Allowed(n, hypothesis.Forgive(v.alpha)))
	lows, highs, base := make([]float64, n), make([]float64, n), make([]baseInterval, len(quantiles))
	for t, q := range v.targets {
		lower[t], upper[t] = math.Inf(-1), math.Inf(1)
		if rank > n {
			continue
		}
		for k := range base {
			base[k] = v.base(q, quantiles[k][t])
		}
		for i, score := range v.scores[t*len(v.scores)/len(v.targets)] {
			c, limit := base[v.folds[i]], threshold{score: score}
			lows[i], highs[i] = -limit.lowerEnd(c.lo, c.lowerUnit), limit.upperEnd(c.hi, c.upperUnit)
		}
		slices.Sort(lows)
		slices.Sort(highs)
		low, high := 0-lows[rank-1], highs[rank-1] // never −0
		if low > high && v.options.Side == "" {
			low += (high - low) / 2
			high = low
		}
		if v.options.Side != conformal.Upper {
			lower[t] = low
		}
		if v.options.Side != conformal.Lower {
			upper[t] = high
		}
	}
}

// base returns the interval of a row before calibration. With one side, both of its ends are the
// quantile from which that side starts.
func (v CrossIntervals) base(q QuantileCalibration, row []float32) baseInterval {
	if v.options.Side == "" {
		return v.options.baseInterval(q, row, v.alpha, rectifier{})
	}
	end := q.quantile(row, sidedLevel(v.options.Side, v.alpha))
	return baseInterval{end, end, 1, 1}
}
