package calibrate

import (
	"cmp"
	"slices"
	"sort"
)

// VennAbers returns a function of top, the largest softmax probability of a row at
// temperature 1. The function returns two estimates, p0 < p1, of the probability that the
// most probable class is right.
//
// An isotonic regression predicts from top whether a row is right. It is fitted to the
// calibration rows and the new row together. p0 is its value for the new row if this row is
// counted as wrong, and p1 if it is counted as right. Let p be p1 for rows that are right and
// p0 for rows that are wrong. Then p is calibrated for any number of calibration rows: among
// the rows with the value p, a fraction p is right. p1/(1 − p0 + p1) merges p0 and p1 into one
// probability.
//
// References: Vovk & Petej (2014), Venn–Abers Predictors; Vovk, Petej & Fedorova (2015),
// Large-Scale Probabilistic Predictors With and Without Guarantees of Validity.
func (c ClassCalibration) VennAbers() func(top float64) (p0, p1 float64) {
	c.Weights = nil
	v := c.newVennAbers()
	return func(top float64) (p0, p1 float64) { return v.value(top, 1, 0), v.value(top, 1, 1) }
}

// newVennAbers leaves out rows whose weight is 0.
func (c ClassCalibration) newVennAbers() vennAbers {
	order := make([]int, 0, len(c.Top))
	for i := range c.Top {
		if c.weight(i) > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(c.Top[a], c.Top[b]) })
	v := vennAbers{rows: []float64{0}, right: []float64{0}, squares: []float64{0}}
	for _, i := range order {
		k, w := len(v.values), c.weight(i)
		if k == 0 || c.Top[i] != v.values[k-1] {
			v.values, v.rows, v.right, v.squares = append(v.values, c.Top[i]), append(v.rows, v.rows[k]), append(v.right, v.right[k]), append(v.squares, v.squares[k])
			v.largest = append(v.largest, 0)
			k++
		}
		v.rows[k] += w
		v.squares[k] += w * w
		v.largest[k-1] = max(v.largest[k-1], w)
		if c.Ranks[i] == 0 {
			v.right[k] += w
		}
	}
	v.poolBlocks()
	return v
}

// weight returns the weight of calibration row i, which is 1 if rows have no weights.
func (c ClassCalibration) weight(i int) float64 {
	if c.Weights == nil {
		return 1
	}
	return c.Weights[i]
}

// vennAbers holds what is needed to add a row to an isotonic regression of the calibration
// rows. The rows have k distinct values of the largest probability. A block is a range of
// values [from, to) for which a regression has the same result. As long as the order is
// violated, the new row merges with the block next to it: below, the last block of a
// regression on the rows with lower values, and above, the first block of a regression on
// the rows with higher values.
type vennAbers struct {
	values      []float64 // distinct largest probabilities, increasing
	rows, right []float64 // rows[i] is the weight of the rows with one of the first i values, and right[i] the weight of the right ones among them
	squares     []float64 // squares[i] is the sum of squared weights of the rows with one of the first i values
	largest     []float64 // largest[i] is the largest weight of a row with value i
	lastStart   []int     // lastStart[i] is the start of the last block of a regression on the first i values
	firstEnd    []int     // firstEnd[i] is the end of the first block of a regression on the values from i on
}

// poolBlocks finds the blocks of regressions from either side. It merges neighbouring blocks
// until their values increase (pool adjacent violators).
func (v *vennAbers) poolBlocks() {
	k := len(v.values)
	v.lastStart, v.firstEnd = make([]int, k+1), make([]int, k+1)
	for i := range k {
		from := i
		for from > 0 && !v.block(v.lastStart[from], from).below(v.block(from, i+1)) {
			from = v.lastStart[from]
		}
		v.lastStart[i+1] = from
	}
	v.firstEnd[k] = k
	for i := k - 1; i >= 0; i-- {
		to := i + 1
		for to < k && !v.block(i, to).below(v.block(to, v.firstEnd[to])) {
			to = v.firstEnd[to]
		}
		v.firstEnd[i] = to
	}
}

// value returns the value of the regression for a new row with the largest probability top and
// this weight. right is 1 if the row is counted as right, and 0 if it is counted as wrong.
func (v *vennAbers) value(top, weight, right float64) float64 {
	from := sort.SearchFloat64s(v.values, top)
	to := from
	if to < len(v.values) && v.values[to] == top {
		to++
	}
	for {
		merged := v.block(from, to)
		merged = block{merged.rows + weight, merged.right + weight*right}
		switch {
		case from > 0 && !v.block(v.lastStart[from], from).below(merged):
			from = v.lastStart[from]
		case to < len(v.values) && !merged.below(v.block(to, v.firstEnd[to])):
			to = v.firstEnd[to]
		default:
			return merged.right / merged.rows
		}
	}
}

func (v *vennAbers) block(from, to int) block {
	return block{v.rows[to] - v.rows[from], v.right[to] - v.right[from]}
}

// block holds the weight of the rows of a block, and of the right ones among them.
type block struct{ rows, right float64 }

// below reports whether a smaller fraction of b than of o is right.
func (b block) below(o block) bool { return b.right*o.rows < o.right*b.rows }
