package table1

import (
	"math"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/reproduce/intervals"
)

// cell summarises one method on one set, under one rule for choosing models.
type cell struct {
	models, seeds    int // number of chosen models, and number of seeds with at least one of them
	picp, picpStd    float64
	mpiw, mpiwStd    float64
	score            float64
	expected, stderr float64 // guaranteed coverage after conformal calibration, and standard error of the mean
}

func (c cell) none() bool { return c.models == 0 }

// tolerance is the largest accepted difference between coverage and level, for example
// coverage in [0.925, 0.975] for level 0.95.
const tolerance = .025

func inRange(m intervals.Measured, coverage float64) bool {
	// Coverage is a fraction of counts, so 1e-9 only absorbs rounding.
	return m.PICP >= coverage-tolerance-1e-9 && m.PICP <= coverage+tolerance+1e-9
}

// everyModel applies the rule of the paper's text. It returns the mean over all models
// whose validation coverage is in range.
func everyModel(records []record) cell {
	var chosen []intervals.Measured
	seeds := map[int]bool{}
	for _, r := range records {
		if inRange(r.Validation, r.Coverage) {
			chosen = append(chosen, r.Test)
			seeds[r.Seed] = true
		}
	}
	return summarise(chosen, len(seeds))
}

// narrowest applies the rule of the paper's scripts: for each seed, the model in range with
// the narrowest validation intervals.
func narrowest(records []record) cell {
	return bestPerSeed(records,
		func(r record) bool { return inRange(r.Validation, r.Coverage) },
		func(r record) float64 { return r.Validation.Width() },
		func(r record) intervals.Measured { return r.Test })
}

// conformalized chooses, for each seed, the model with the narrowest intervals on one half of
// the validation rows, calibrated on that half. It then calibrates the chosen model on the
// other half. testRows is the number of test rows.
func conformalized(records []record, testRows int) cell {
	c := bestPerSeed(records,
		func(record) bool { return true },
		func(r record) float64 { return r.Choosing.Width() },
		func(r record) intervals.Measured { return r.Honest })
	if len(records) > 0 {
		alpha := 1 - records[0].Coverage
		c.expected = hypothesis.ExpectedCoverage(records[0].NCal, alpha)
		c.stderr = intervals.CoverageError(records[0].NCal, testRows, alpha) / math.Sqrt(float64(c.seeds))
	}
	return c
}

func bestPerSeed(records []record, eligible func(record) bool, width func(record) float64, result func(record) intervals.Measured) cell {
	best := map[int]record{}
	var seeds []int
	for _, r := range records {
		if !eligible(r) {
			continue
		}
		b, found := best[r.Seed]
		if !found {
			seeds = append(seeds, r.Seed)
		}
		if !found || width(r) < width(b) {
			best[r.Seed] = r
		}
	}
	var chosen []intervals.Measured
	for _, s := range seeds {
		chosen = append(chosen, result(best[s]))
	}
	return summarise(chosen, len(seeds))
}

// summarise computes the means of the chosen models. Standard deviations have the
// denominator n, as in NumPy.
func summarise(chosen []intervals.Measured, seeds int) cell {
	c := cell{models: len(chosen), seeds: seeds}
	if c.none() {
		return c
	}
	var picp, mpiw, score []float64
	for _, m := range chosen {
		picp, mpiw = append(picp, m.PICP), append(mpiw, m.Width())
		if m.Unbounded {
			m.Score = math.Inf(1)
		}
		score = append(score, m.Score)
	}
	c.picp, c.picpStd = stat.PopMeanStdDev(picp, nil)
	c.mpiw, c.mpiwStd = stat.PopMeanStdDev(mpiw, nil)
	c.score = stat.Mean(score, nil)
	return c
}
