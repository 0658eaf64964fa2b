package evaluate

import (
	"math"
	"slices"
	"strconv"

	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// parting divides rows to parts that have names.
type parting struct {
	names []string
	of    []int // the part of each row
}

func (g *gathering) byLabel() parting { return g.byClass(g.labels) }

func (g *gathering) byPredicted() parting { return g.byClass(g.predicted) }

func (g *gathering) byClass(of []int) parting {
	if of == nil {
		return parting{}
	}
	p := parting{of: of}
	for c := range slices.Max(of) + 1 {
		p.names = append(p.names, g.className(c))
	}
	return p
}

// className is a class's name or else its number.
func (g *gathering) className(c int) string {
	if c < len(g.bundle.Base.Classes) {
		return g.bundle.Base.Classes[c]
	}
	return strconv.Itoa(c)
}

func (g *gathering) byGroup() parting {
	var p parting
	p.names = slices.Compact(slices.Sorted(slices.Values(g.groups)))
	for _, name := range g.groups {
		k, _ := slices.BinarySearch(p.names, name)
		p.of = append(p.of, k)
	}
	return p
}

// tenths divides rows by the tenth that a number of theirs is of. Equal numbers
// stay together.
func tenths(x []float64) parting {
	const parts = 10
	sorted := slices.Sorted(slices.Values(x))
	var edges []float64 // the least of each part but the first
	for k := 1; k < parts; k++ {
		edges = append(edges, sorted[k*len(sorted)/parts])
	}
	edges = slices.Compact(edges)
	if edges[0] == sorted[0] {
		edges = edges[1:]
	}
	ends := written(slices.Concat(sorted[:1], edges, sorted[len(sorted)-1:]))
	var p parting
	for k := range len(ends) - 1 {
		p.names = append(p.names, ends[k]+" to "+ends[k+1])
	}
	for _, v := range x {
		k, found := slices.BinarySearch(edges, v)
		if found {
			k++
		}
		p.of = append(p.of, k)
	}
	return p
}

// written are increasing numbers with at least three digits, and with as many as tell
// different ones apart.
func written(x []float64) []string {
	const least, most = 3, 17
	all, write := make([]string, len(x)), display.Number
	if !display.Plain(x[0]) || !display.Plain(x[len(x)-1]) {
		write = display.Scientific
	}
	for digits := least; digits <= most; digits++ {
		alike := false
		for i, v := range x {
			all[i] = write(v, digits)
			alike = alike || i > 0 && all[i] == all[i-1] && v != x[i-1]
		}
		if !alike {
			break
		}
	}
	return all
}

// rates counts, by part, the rows of which yes holds, of those of which among
// does; a part without such rows is left out. widths are nil or averaged where
// they end.
func (p parting) rates(yes func(i int) bool, widths []float64) []Rate {
	counts, of := make([]int, len(p.names)), make([]int, len(p.names))
	sums, ends := make([]float64, len(p.names)), make([]int, len(p.names))
	for i, k := range p.of {
		of[k]++
		if yes(i) {
			counts[k]++
		}
		if widths != nil && !math.IsInf(widths[i], 0) {
			sums[k] += widths[i]
			ends[k]++
		}
	}
	var list []Rate
	for k, name := range p.names {
		if of[k] == 0 {
			continue
		}
		r := rate(counts[k], of[k])
		r.Name, r.part = name, k
		if ends[k] > 0 {
			r.Width = new(sums[k] / float64(ends[k]))
		}
		list = append(list, *r)
	}
	return list
}

// histogram counts numbers from 0 to 1 that are as likely in one bin as in another.
func histogram(x []float64) Histogram {
	h := Histogram{Counts: hypothesis.Counts(x), Expected: make([]float64, hypothesis.Bins)}
	for k := range h.Expected {
		h.Expected[k] = float64(len(x)) / hypothesis.Bins
	}
	return h
}
