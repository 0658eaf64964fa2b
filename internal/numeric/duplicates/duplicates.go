// Package duplicates finds rows that are nearly the same, by exhaustive search, in
// memory that is bounded beside the rows themselves.
package duplicates

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/neighbours"
)

// Reference is rows that say how near others must be to be nearly the same: nearer
// than Chance of rows drawn like these are to the nearest of them. Columns count by
// their standard deviations.
//
// How many rows are so near is read off the distances to the nearest row and the
// second, which say how many dimensions the rows fill (Facco et al. 2017): the share
// within a distance falls with its power.
type Reference struct {
	index       *neighbours.Index // of rows that are finite
	at          []int             // their numbers
	mean, scale []float64
	near        float64
}

const (
	// Chance is the share of rows that are taken for copies where they are none.
	Chance = 1e-3

	sampled = 500 // rows whose nearest are looked for
	fewest  = 10  // of these, so that they say anything
	// widest bounds how near copies are, of the median distance to the nearest row:
	// where values are few, rows do not fill their dimensions.
	widest = .5
	// equal is how near copies are in any case, of the typical distance of two rows:
	// a network makes as much of one input in other company.
	equal = 1e-6
)

// New takes the rows of x, n×h, of which it keeps a copy. Rows that are not finite
// count for nothing.
func New(ctx context.Context, x blas32.General) (*Reference, error) {
	r := &Reference{mean: make([]float64, x.Cols), scale: make([]float64, x.Cols)}
	for i := range x.Rows {
		if !finite(rows.Row(x, i)) {
			continue
		}
		r.at = append(r.at, i)
		n := float64(len(r.at))
		for j, v := range rows.Row(x, i) { // Welford's
			d := float64(v) - r.mean[j]
			r.mean[j] += d / n
			r.scale[j] += d * (float64(v) - r.mean[j])
		}
	}
	n := float64(max(len(r.at), 1))
	var all float64
	for j, s := range r.scale {
		r.scale[j] = math.Sqrt(s / n)
		all += s / n / float64(x.Cols)
	}
	for j, s := range r.scale {
		if s == 0 { // columns that never vary here may in other rows
			s = math.Sqrt(all)
		}
		if r.scale[j] = 1; s > 0 {
			r.scale[j] = 1 / s
		}
	}
	scaled := r.scaled(rows.Select(x, r.at))
	r.near = equal * math.Sqrt(2*float64(x.Cols))
	if scaled.Rows == 0 {
		return r, nil
	}
	r.index = neighbours.New(scaled, false)
	return r, r.measure(ctx)
}

func finite(row []float32) bool {
	return !slices.ContainsFunc(row, func(v float32) bool { return !rows.Finite(float64(v)) })
}

// measure finds how near copies are.
func (r *Reference) measure(ctx context.Context) error {
	x := r.index.Rows
	var at []int
	for i := 0; i < x.Rows; i += (x.Rows + sampled - 1) / sampled {
		at = append(at, i)
	}
	found, err := r.index.Nearest(ctx, rows.Select(x, at), 3, false)
	if err != nil {
		return err
	}
	var nearest []float64
	var logs float64
	for k, list := range found {
		list = slices.DeleteFunc(list, func(n neighbours.Neighbour) bool { return n.Row == at[k] })
		if len(list) < 2 || list[0].Distance <= r.near {
			continue
		}
		nearest = append(nearest, list[0].Distance)
		logs += math.Log(list[1].Distance / list[0].Distance)
	}
	if len(nearest) < fewest {
		return nil
	}
	slices.Sort(nearest)
	dimensions := float64(len(nearest)) / logs // Inf where all are equally far
	r.near = max(r.near, nearest[len(nearest)/2]*min(widest, math.Pow(Chance, 1/dimensions)))
	return nil
}

func (r *Reference) scaled(x blas32.General) blas32.General {
	s := rows.New(x.Rows, x.Cols)
	for i := range x.Rows {
		to := rows.Row(s, i)
		for j, v := range rows.Row(x, i) {
			to[j] = float32((float64(v) - r.mean[j]) * r.scale[j])
		}
	}
	return s
}

// Like returns, for every row of x, the number of the row of the reference that it is
// nearly the same as, or −1.
func (r *Reference) Like(ctx context.Context, x blas32.General) ([]int, error) {
	like := make([]int, x.Rows)
	for i := range like {
		like[i] = -1
	}
	if r.index == nil {
		return like, nil
	}
	found, err := r.index.Nearest(ctx, r.scaled(x), 1, false)
	for i, list := range found {
		if len(list) > 0 && list[0].Distance <= r.near {
			like[i] = r.at[list[0].Row]
		}
	}
	return like, err
}

// Groups finds copies among the rows of x, n×h: rows that are nearly the same as an
// earlier one, where same confirms it by what the rows are features of. Each group is a
// row and its copies, which need not be like each other, so that no chain joins rows
// that differ. A copy of several rows belongs to the first. A row that is not finite is
// like no other.
func (r *Reference) Groups(ctx context.Context, x blas32.General, same func(i, j int) bool) ([][]int, error) {
	x = r.scaled(x)
	limit := r.near * r.near
	var groups [][]int // each row's own, with its copies
next:
	for i := range x.Rows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for k, of := range groups {
			if rows.SquaredDistance(rows.Row(x, of[0]), rows.Row(x, i)) <= limit && same(of[0], i) {
				groups[k] = append(of, i)
				continue next
			}
		}
		groups = append(groups, []int{i})
	}
	return slices.DeleteFunc(groups, func(of []int) bool { return len(of) == 1 }), nil
}
