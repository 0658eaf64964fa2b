package evaluate

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/internal/numeric/trees"
)

// ERT is the excess risk of the target coverage. A forest predicts from the features, the
// prediction and the width of the interval whether a row is covered. If coverage is the same
// everywhere, no prediction has a smaller loss than the level itself. The difference of the
// losses measures how far coverage deviates from the level. Each row is predicted by a forest
// that was trained on other rows, so both figures are below the true deviation on average, and
// can be below 0.
//
// Reference: Braun, Holzmüller, Jordan & Bach (2025), Conditional Coverage Diagnostics for
// Conformal Prediction, arXiv 2512.11779.
type ERT struct {
	Rows int `json:"rows"` // number of predicted rows
	// Deviation is the L1-ERT, an estimate of the mean absolute deviation of the coverage of a
	// row from the level. ExcessRisk is the ERT of the Brier score, an estimate of the mean
	// squared deviation.
	Deviation  float64 `json:"deviation"`
	ExcessRisk float64 `json:"excess_risk"`
}

// ertOf returns the ERT of predicted coverages, given which rows are covered.
func ertOf(level float64, predicted []float64, covered []bool) *ERT {
	e := &ERT{Rows: len(predicted)}
	for i, p := range predicted {
		z := 0.
		if covered[i] {
			z = 1
		}
		e.Deviation += float64(cmp.Compare(p, level)) * (z - level) / float64(len(predicted))
		e.ExcessRisk += ((level-z)*(level-z) - (p-z)*(p-z)) / float64(len(predicted))
	}
	return e
}

const (
	// minSearchRows is the smallest number of rows in which parts with many misses are searched.
	minSearchRows = 50
	// maxSearchCells limits the number of rows times columns that a forest is trained on.
	maxSearchCells = 1 << 21
	// searchBlocks is the number of blocks of rows that are predicted.
	searchBlocks = 3
	// riskiest is the fraction of each block of rows with the most predicted misses that is
	// tested.
	riskiest = .2
)

// missForest returns the options of the forest that predicts misses. Its leaves are large,
// because misses are rare.
func missForest(n, cols int, seed uint64) trees.ForestOptions {
	o := trees.ForestOptions{Trees: 100, Seed: seed}
	o.MaxDepth, o.MinLeaf, o.MaxFeatures = 8, max(10, n/50), max(1/math.Sqrt(float64(cols)), min(1, 3/float64(cols)))
	return o
}

// searchMisses looks for rows with many misses, among at most 10,000 rows. See
// predictMisses and worstRegion.
func (g *accumulator) searchMisses(ctx context.Context, c outcomes, coverage *Coverage, p Guarantee) (found search) {
	sampled := g.features.rows
	if len(sampled) < minSearchRows || coverage.Count == coverage.Rows {
		return found
	}
	covered := rows.Pick(c.covered, sampled)
	seed := g.predictors[g.mainLevel].Options().Seed
	order := rand.New(rand.NewPCG(seed, 0xc04d)).Perm(len(sampled))
	if region, members := g.columns.worstRegion(order, covered); region != "" {
		found.columns = singlePart(g.n, region, rows.Pick(sampled, members))
	}
	x := g.missFeatures(c, p)
	order = order[:min(len(order), max(1000, maxSearchCells/x.Cols))]
	tested, predicted, risky := predictMisses(ctx, x, covered, order, seed)
	if ctx.Err() != nil || len(risky) == 0 {
		return found
	}
	found.ert = ertOf(coverage.Nominal, predicted, rows.Pick(covered, tested))
	found.misses = singlePart(g.n, "a fifth of the rows", rows.Pick(sampled, risky))
	return found
}

// missFeatures returns the features of the sampled rows. It adds the prediction and the width
// of the interval, or the confidence and the size of the set. With Smoothed, it leaves out the
// width or size, because the random number that it depends on also decides whether a row is
// covered.
func (g *accumulator) missFeatures(c outcomes, p Guarantee) blas32.General {
	r := g.features
	var added [][]float64
	if !g.predictors[g.mainLevel].Options().Smoothed {
		added = append(added, c.width)
	}
	switch {
	case p.Kind == hypothesis.SetCoverage:
		added = append(added, g.classes.after)
	case p.Kind == hypothesis.IntervalCoverage:
		added = append(added, g.targets[p.Target].median)
	}
	added = slices.DeleteFunc(added, func(x []float64) bool { return x == nil })
	x := rows.New(len(r.rows), r.cols+len(added))
	for k, i := range r.rows {
		row := rows.Row(x, k)
		copy(row, r.x[k*r.cols:(k+1)*r.cols])
		for j, values := range added {
			row[r.cols+j] = float32(max(-math.MaxFloat32, min(math.MaxFloat32, values[i])))
		}
	}
	return x
}

// predictMisses predicts whether rows of x are covered. order is a random order of the rows.
// The first 40 % only train. The others are divided into blocks, and the rows before a block
// train the forest that predicts it. The results are the rows that were predicted, their
// predicted coverages, and the fifth of each block with the lowest predicted coverage.
//
// If coverage does not depend on the features, the choice of this fifth tells nothing about its
// misses, because only rows of earlier blocks have influenced it. The number of misses is then
// distributed as in rows that were chosen at random. Ordinary cross-validation lacks this
// property, because each block also trains forests for other blocks.
func predictMisses(ctx context.Context, x blas32.General, covered []bool, order []int, seed uint64) (tested []int, predicted []float64, risky []int) {
	y := make([]float32, x.Rows)
	for i, c := range covered {
		if c {
			y[i] = 1
		}
	}
	n := len(order)
	first := 2 * n / 5
	for b := range searchBlocks {
		from, to := first+b*(n-first)/searchBlocks, first+(b+1)*(n-first)/searchBlocks
		training := order[:from]
		z := make([]float32, from)
		for k, i := range training {
			z[k] = y[i]
		}
		data, err := trees.NewData(rows.Select(x, training), trees.Automatic)
		if err != nil {
			return nil, nil, nil
		}
		forest, err := trees.GrowForest(ctx, data, z, missForest(from, x.Cols, seed))
		if err != nil { // the context has ended
			return nil, nil, nil
		}
		block := slices.Clone(order[from:to])
		p := leafMeans(forest, rows.Select(x, block))
		tested, predicted = append(tested, block...), append(predicted, p...)
		position := make([]int, len(block))
		for k := range position {
			position[k] = k
		}
		slices.SortStableFunc(position, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
		for _, k := range position[:int(riskiest*float64(len(block)))] {
			risky = append(risky, block[k])
		}
	}
	return tested, predicted, risky
}

// leafMeans returns the predictions of a regression forest: the mean over its trees of the mean
// target in the leaf of a row.
func leafMeans(f *trees.Forest, x blas32.General) []float64 {
	means, members := make([]float64, len(f.Sizes)), f.Members
	for l, size := range f.Sizes {
		for _, m := range members[:size] {
			means[l] += float64(f.Values[m]) / float64(size)
		}
		members = members[size:]
	}
	p := make([]float64, x.Rows)
	for i := range p {
		first := 0
		for t := range f.Trees {
			p[i] += means[first+int(f.Trees[t].Leaf(rows.Row(x, i)))] / float64(len(f.Trees))
			first += f.Trees[t].Leaves
		}
	}
	return p
}
