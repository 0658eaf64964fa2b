package calibrate

import (
	"cmp"
	"slices"
	"sort"
)

// VennAbers returns a function that gives two probabilities that the most
// probable class of a row is right, from its largest softmax probability at
// temperature 1: p0 if it were wrong and p1 > p0 if it were right. Each is the
// value at the row of the isotonic regression of whether calibration rows are
// right on their largest probabilities, with the row among them. Of the two, the
// one that what is true chooses is calibrated for any number of calibration rows:
// among rows where it is p, a share p is right. p1/(1 − p0 + p1) makes one
// probability of the two.
//
// References: Vovk & Petej (2014), Venn–Abers Predictors; Vovk, Petej & Fedorova
// (2015), Large-Scale Probabilistic Predictors With and Without Guarantees of
// Validity.
func (c ClassCalibration) VennAbers() func(top float64) (p0, p1 float64) {
	order := make([]int, len(c.Top))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(c.Top[a], c.Top[b]) })
	v := vennAbers{rows: []int{0}, right: []int{0}}
	for _, i := range order {
		k := len(v.at)
		if k == 0 || c.Top[i] != v.at[k-1] {
			v.at, v.rows, v.right = append(v.at, c.Top[i]), append(v.rows, v.rows[k]), append(v.right, v.right[k])
			k++
		}
		v.rows[k]++
		v.right[k] += 1 - min(c.Ranks[i], 1)
	}
	v.pool()
	return func(top float64) (p0, p1 float64) { return v.value(top, 0), v.value(top, 1) }
}

// vennAbers are the k different largest probabilities of calibration rows, and
// regressions of all rows below each of them and of all from each of them on. Blocks
// of a regression are rows that it gives one value; a block goes from one index on
// to below another.
type vennAbers struct {
	at          []float64 // rising
	rows, right []int     // how many are below each index, k+1
	first       []int     // where the last block of rows below each index begins, k+1
	end         []int     // where the first block of rows from each index on ends, k+1
}

// pool joins neighbours that fall, from either side (pool adjacent violators).
func (v *vennAbers) pool() {
	k := len(v.at)
	v.first, v.end = make([]int, k+1), make([]int, k+1)
	for i := range k {
		from := i
		for from > 0 && !v.of(v.first[from], from).below(v.of(from, i+1)) {
			from = v.first[from]
		}
		v.first[i+1] = from
	}
	v.end[k] = k
	for i := k - 1; i >= 0; i-- {
		to := i + 1
		for to < k && !v.of(i, to).below(v.of(to, v.end[to])) {
			to = v.end[to]
		}
		v.end[i] = to
	}
}

// value is that of the regression at a row, which is right once or never.
func (v *vennAbers) value(top float64, right int) float64 {
	from := sort.SearchFloat64s(v.at, top)
	to := from
	if to < len(v.at) && v.at[to] == top {
		to++
	}
	for {
		own := v.of(from, to)
		own = block{own.rows + 1, own.right + right}
		switch {
		case from > 0 && !v.of(v.first[from], from).below(own):
			from = v.first[from]
		case to < len(v.at) && !own.below(v.of(to, v.end[to])):
			to = v.end[to]
		default:
			return float64(own.right) / float64(own.rows)
		}
	}
}

func (v *vennAbers) of(from, to int) block {
	return block{v.rows[to] - v.rows[from], v.right[to] - v.right[from]}
}

// block counts rows, and those that are right.
type block struct{ rows, right int }

func (b block) below(o block) bool { return b.right*o.rows < o.right*b.rows }
