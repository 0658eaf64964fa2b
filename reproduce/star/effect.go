package star

import (
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/ood"
)

// armOutcomes holds quantiles of the outcome of one arm, indexed by sample and level. The
// first refitCount samples contain all rows and differ only in the seed of the network. The
// remaining ones are bootstrap samples.
type armOutcomes struct {
	refitCount int
	mean       [][]float64 // mean of the predicted conditional quantiles over rows
	marginal   [][]float64 // quantiles of the mixture of the predicted distributions
	empirical  [][]float64 // quantiles of the observed outcomes, without a network
}

// resampleRows draws n of n rows with replacement.
func resampleRows(n int, rng *rand.Rand) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = rng.IntN(n)
	}
	return rows
}

// resampleGroups draws whole groups with replacement until it has at least len(group) rows.
// It then drops surplus rows from the last group. group holds the group of each row.
func resampleGroups(group []string, rng *rand.Rand) []int {
	members := map[string][]int{}
	var names []string
	for i, g := range group {
		if members[g] == nil {
			names = append(names, g)
		}
		members[g] = append(members[g], i)
	}
	var rows []int
	for len(rows) < len(group) {
		rows = append(rows, members[names[rng.IntN(len(names))]]...)
	}
	return rows[:len(group)]
}

// sampleCounts returns how often each of n rows occurs in a sample.
func sampleCounts(sample []int, n int) []float64 {
	weights := make([]float64, n)
	for _, i := range sample {
		weights[i]++
	}
	return weights
}

// meanQuantiles returns, for each of the given levels, the weighted mean of the quantiles of
// all rows.
func meanQuantiles(q ood.Quantiles, weights, levels []float64) []float64 {
	mean := make([]float64, len(q.Levels))
	for i, w := range weights {
		for l, v := range q.Row(i, 0) {
			mean[l] += w * float64(v)
		}
	}
	floats.Scale(1/floats.Sum(weights), mean)
	out := make([]float64, len(levels))
	for l, tau := range levels {
		out[l] = interpolate(q.Levels, mean, tau)
	}
	return out
}

// interpolate interpolates linearly between the two levels that enclose tau.
func interpolate(levels, values []float64, tau float64) float64 {
	i, found := slices.BinarySearch(levels, tau)
	if found {
		return values[i]
	}
	w := (tau - levels[i-1]) / (levels[i] - levels[i-1])
	return values[i-1] + w*(values[i]-values[i-1])
}

// marginalQuantiles returns the quantiles of the outcome of a random row, which has the
// mixture of the rows' predicted distributions. In each distribution, the quantiles at the
// levels of q are equally likely.
func marginalQuantiles(q ood.Quantiles, weights, levels []float64) []float64 {
	var values, mass []float64
	for i, w := range weights {
		if w == 0 {
			continue
		}
		for _, v := range q.Row(i, 0) {
			values, mass = append(values, float64(v)), append(mass, w)
		}
	}
	return empiricalQuantiles(values, mass, levels)
}

// empiricalQuantiles returns quantiles of weighted values.
func empiricalQuantiles(values, weights, levels []float64) []float64 {
	values, weights = slices.Clone(values), slices.Clone(weights)
	stat.SortWeighted(values, weights)
	out := make([]float64, len(levels))
	for l, tau := range levels {
		out[l] = stat.Quantile(tau, stat.Empirical, values, weights)
	}
	return out
}

// effect is a quantile treatment effect at one level.
type effect struct {
	level float64
	// mean is the difference of the mean predicted quantiles, averaged over networks that
	// differ only in their seed. refitStdDev is its standard deviation over these networks.
	mean, refitStdDev float64
	meanBand          [2]float64
	// marginal is the effect on quantiles of the mixture of predicted distributions, and
	// empirical the effect on quantiles of the observed outcomes.
	marginal, empirical         float64
	marginalBand, empiricalBand [2]float64
}

// treatmentEffects returns the difference between the quantiles of treated and control at
// each level. The bands are percentiles over the bootstrap samples.
func treatmentEffects(treated, control armOutcomes, levels []float64, coverage float64) []effect {
	effects := make([]effect, len(levels))
	for l := range effects {
		difference := func(outcomesOf func(armOutcomes) [][]float64) (differences, bootstrapped []float64) {
			t, c := outcomesOf(treated), outcomesOf(control)
			for i := range t {
				differences = append(differences, t[i][l]-c[i][l])
			}
			return differences[:treated.refitCount], differences[treated.refitCount:]
		}
		e := &effects[l]
		e.level = levels[l]
		refits, bootstrapped := difference(func(o armOutcomes) [][]float64 { return o.mean })
		e.mean, e.refitStdDev = stat.Mean(refits, nil), stat.PopStdDev(refits, nil)
		e.meanBand = percentiles(bootstrapped, coverage)
		refits, bootstrapped = difference(func(o armOutcomes) [][]float64 { return o.marginal })
		e.marginal, e.marginalBand = stat.Mean(refits, nil), percentiles(bootstrapped, coverage)
		refits, bootstrapped = difference(func(o armOutcomes) [][]float64 { return o.empirical })
		e.empirical, e.empiricalBand = refits[0], percentiles(bootstrapped, coverage)
	}
	return effects
}

// percentiles returns both ends of the central fraction of values.
func percentiles(values []float64, fraction float64) [2]float64 {
	values = slices.Sorted(slices.Values(values))
	return [2]float64{
		stat.Quantile((1-fraction)/2, stat.LinInterp, values, nil), stat.Quantile((1+fraction)/2, stat.LinInterp, values, nil),
	}
}
