package experiment

import (
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/fitting/mlp"
	"github.com/attach-uncertainty/attach/ood"
)

// PICP returns the prediction interval coverage probability: the fraction of targets strictly
// inside their intervals.
func PICP(lower, upper, y []float64) float64 {
	checkIntervals(lower, upper, len(y))
	inside := 0
	for i, v := range y {
		if lower[i] < v && v < upper[i] {
			inside++
		}
	}
	return float64(inside) / float64(len(y))
}

// MPIW returns the mean prediction interval width, in units of the target.
func MPIW(lower, upper []float64) float64 {
	checkIntervals(lower, upper, len(lower))
	var sum float64
	for i := range lower {
		sum += upper[i] - lower[i]
	}
	return sum / float64(len(lower))
}

// IntervalScore returns the mean Winkler score of intervals with miscoverage alpha: the width,
// plus 2/α times the distance of a target outside its interval. The quantiles α/2 and 1−α/2
// minimise it.
//
// References: Winkler (1972), A Decision-Theoretic Approach to Interval
// Estimation; Gneiting & Raftery (2007), Strictly Proper Scoring Rules,
// Prediction, and Estimation, equation 43.
func IntervalScore(lower, upper, y []float64, alpha float64) float64 {
	checkIntervals(lower, upper, len(y))
	var sum float64
	for i, v := range y {
		outside := max(lower[i]-v, v-upper[i], 0)
		sum += upper[i] - lower[i] + 2/alpha*outside
	}
	return sum / float64(len(y))
}

func checkIntervals(lower, upper []float64, n int) {
	if len(lower) != n || len(upper) != n {
		panic("experiment: intervals and targets differ in length")
	}
}

// Level returns the quantiles of the first target at level index level.
func Level(q ood.Quantiles, level int) []float64 {
	out := make([]float64, q.Rows)
	for i := range out {
		out[i] = float64(q.Row(i, 0)[level])
	}
	return out
}

// Crossing measures how often quantiles cross, which means that the higher of two
// neighbouring levels has the lower quantile. Each row of quantiles has the given number of
// increasing levels. Crossing returns the fraction of rows with at least one crossing, and
// the fraction of neighbouring pairs that cross. Both are 0 for a single level.
func Crossing(quantiles []float32, levels int) (rows, pairs float64) {
	n := float64(len(quantiles) / levels)
	for q := range slices.Chunk(quantiles, levels) {
		crossed := 0.
		for l := range levels - 1 {
			if q[l+1] < q[l] {
				crossed++
			}
		}
		rows += min(crossed, 1) / n
		pairs += crossed / float64(max(levels-1, 1)) / n
	}
	return rows, pairs
}

// Unsorted returns quantiles of the rows of x as the networks output them,
// n×targets×levels. Unlike the sorted quantiles of a prediction, they may cross.
func Unsorted(c *mlp.Conditional, x blas32.General, levels []float64) ood.Quantiles {
	quantiles := ood.NewQuantiles(x.Rows, len(c.Networks), levels)
	for l, tau := range levels {
		single := mlp.Conditional{Regression: c.Regression, Grid: []float64{tau}}
		q := single.Quantiles(x, single.Grid)
		for i := range x.Rows {
			for t := range c.Networks {
				quantiles.Row(i, t)[l] = q.Row(i, t)[0]
			}
		}
	}
	return quantiles
}
