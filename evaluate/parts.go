package evaluate

import (
	"math"
	"slices"
	"strconv"

	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// grouping divides rows into named parts.
type grouping struct {
	names []string
	index []int // the part of each row, or −1 if it is in none
}

func (g *accumulator) byLabel() grouping { return g.byClass(g.labels) }

func (g *accumulator) byPredicted() grouping { return g.byClass(g.predicted) }

func (g *accumulator) byClass(classes []int) grouping {
	if classes == nil {
		return grouping{}
	}
	p := grouping{index: classes}
	for c := range slices.Max(classes) + 1 {
		p.names = append(p.names, g.className(c))
	}
	return p
}

// className returns the name of class c, or its number if it has no name.
func (g *accumulator) className(c int) string {
	if c < len(g.bundle.Base.Classes) {
		return g.bundle.Base.Classes[c]
	}
	return strconv.Itoa(c)
}

func (g *accumulator) byGroup() grouping {
	var p grouping
	p.names = slices.Compact(slices.Sorted(slices.Values(g.groups)))
	for _, name := range g.groups {
		k, _ := slices.BinarySearch(p.names, name)
		p.index = append(p.index, k)
	}
	return p
}

// deciles groups rows by the decile of their value in x.
func deciles(x []float64) grouping { return quantileParts(x, 10) }

// quantileParts groups rows into parts with about equally many rows, by their value in x. Rows
// with equal values are in the same part, so there may be fewer parts.
func quantileParts(x []float64, parts int) grouping {
	sorted := slices.Sorted(slices.Values(x))
	var edges []float64 // the smallest number of each part except the first
	for k := 1; k < parts; k++ {
		edges = append(edges, sorted[k*len(sorted)/parts])
	}
	edges = slices.Compact(edges)
	if edges[0] == sorted[0] {
		edges = edges[1:]
	}
	ends := formatDistinct(slices.Concat(sorted[:1], edges, sorted[len(sorted)-1:]))
	var p grouping
	for k := range len(ends) - 1 {
		p.names = append(p.names, ends[k]+" to "+ends[k+1])
	}
	for _, v := range x {
		k, found := slices.BinarySearch(edges, v)
		if found {
			k++
		}
		p.index = append(p.index, k)
	}
	return p
}

// formatDistinct formats increasing numbers with at least three digits. It uses as many more
// digits as are needed to distinguish different numbers.
func formatDistinct(x []float64) []string {
	const minDigits, maxDigits = 3, 17
	all, format := make([]string, len(x)), display.Number
	if !display.Plain(x[0]) || !display.Plain(x[len(x)-1]) {
		format = display.Scientific
	}
	for digits := minDigits; digits <= maxDigits; digits++ {
		ambiguous := false
		for i, v := range x {
			all[i] = format(v, digits)
			ambiguous = ambiguous || i > 0 && all[i] == all[i-1] && v != x[i-1]
		}
		if !ambiguous {
			break
		}
	}
	return all
}

// rates returns, for each part, the rate of rows for which has is true. It leaves out parts
// without rows. MeanWidth is the mean of the finite widths; widths may be nil.
func (p grouping) rates(has func(i int) bool, widths []float64) []Rate {
	counts, totals := make([]int, len(p.names)), make([]int, len(p.names))
	sums, finite := make([]float64, len(p.names)), make([]int, len(p.names))
	for i, k := range p.index {
		if k < 0 {
			continue
		}
		totals[k]++
		if has(i) {
			counts[k]++
		}
		if widths != nil && !math.IsInf(widths[i], 0) {
			sums[k] += widths[i]
			finite[k]++
		}
	}
	var list []Rate
	for k, name := range p.names {
		if totals[k] == 0 {
			continue
		}
		r := rate(counts[k], totals[k])
		r.Name, r.part = name, k
		if finite[k] > 0 {
			r.MeanWidth = new(sums[k] / float64(finite[k]))
		}
		list = append(list, *r)
	}
	return list
}

// histogram returns the histogram of numbers from 0 to 1 whose expected distribution is
// uniform.
func histogram(x []float64) Histogram {
	h := Histogram{Counts: hypothesis.Counts(x), Expected: make([]float64, hypothesis.Bins)}
	for k := range h.Expected {
		h.Expected[k] = float64(len(x)) / hypothesis.Bins
	}
	return h
}
