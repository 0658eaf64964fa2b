package star

import (
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/ood"
)

// armOutcomes are quantiles of the outcome of one arm, levels of sample after
// sample. The first samples are all rows, each time with another network.
type armOutcomes struct {
	refits    int
	mean      [][]float64 // over rows, of the predicted conditional quantiles
	marginal  [][]float64 // of the mixture of the predicted distributions
	empirical [][]float64 // of the outcomes themselves, without a network
}

// resampleRows draws n of n rows with replacement.
func resampleRows(n int, rng *rand.Rand) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = rng.IntN(n)
	}
	return rows
}

// resampleGroups draws whole groups with replacement until there are as many
// rows as group has; the last group is cut off there.
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

// counts says how often each of n rows is in a sample.
func counts(sample []int, n int) []float64 {
	weights := make([]float64, n)
	for _, i := range sample {
		weights[i]++
	}
	return weights
}

// meanQuantiles is the weighted mean over rows of their quantiles at levels.
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

// interpolate is linear between the two levels that enclose tau.
func interpolate(levels, values []float64, tau float64) float64 {
	i, found := slices.BinarySearch(levels, tau)
	if found {
		return values[i]
	}
	w := (tau - levels[i-1]) / (levels[i] - levels[i-1])
	return values[i-1] + w*(values[i]-values[i-1])
}

// marginalQuantiles are the quantiles of the outcome of a random row: of the
// mixture of the rows' predicted distributions, each the equally likely
// quantiles at the levels of q.
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

// empiricalQuantiles are quantiles of weighted values.
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
	// mean is the difference of the mean predicted quantiles, over networks
	// that differ in their seed alone, and spread its deviation over them.
	mean, spread float64
	band         [2]float64
	// marginal is the effect on the quantiles of the mixture of the predicted
	// distributions, and empirical that on the quantiles of the outcomes.
	marginal, empirical         float64
	marginalBand, empiricalBand [2]float64
}

// treatmentEffects are differences of the quantiles of treated and control,
// with percentile bands of the bootstrap samples.
func treatmentEffects(treated, control armOutcomes, levels []float64, coverage float64) []effect {
	effects := make([]effect, len(levels))
	for l := range effects {
		difference := func(of func(armOutcomes) [][]float64) (all, drawn []float64) {
			t, c := of(treated), of(control)
			for i := range t {
				all = append(all, t[i][l]-c[i][l])
			}
			return all[:treated.refits], all[treated.refits:]
		}
		e := &effects[l]
		e.level = levels[l]
		refits, drawn := difference(func(o armOutcomes) [][]float64 { return o.mean })
		e.mean, e.spread = stat.Mean(refits, nil), stat.PopStdDev(refits, nil)
		e.band = percentiles(drawn, coverage)
		refits, drawn = difference(func(o armOutcomes) [][]float64 { return o.marginal })
		e.marginal, e.marginalBand = stat.Mean(refits, nil), percentiles(drawn, coverage)
		refits, drawn = difference(func(o armOutcomes) [][]float64 { return o.empirical })
		e.empirical, e.empiricalBand = refits[0], percentiles(drawn, coverage)
	}
	return effects
}

// percentiles returns the ends of the central fraction of values.
func percentiles(values []float64, share float64) [2]float64 {
	values = slices.Sorted(slices.Values(values))
	return [2]float64{
		stat.Quantile((1-share)/2, stat.LinInterp, values, nil), stat.Quantile((1+share)/2, stat.LinInterp, values, nil),
	}
}
