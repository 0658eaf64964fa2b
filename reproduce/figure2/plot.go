package figure2

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// drawnRows is the maximum number of test rows in the figure.
const drawnRows = 250

// plot draws separate levels on the left and joint ones on the right. The top panels show
// the lowest, the middle and the highest level on test rows. The bottom panels show their
// differences, and a negative difference is a crossing.
func (c crossingCurves) plot(path string) error {
	levels := []int{0, len(c.levels) / 2, len(c.levels) - 1}
	if len(c.levels) == 2 {
		levels = levels[1:]
		levels[0] = 0
	}
	order := experiment.Indices(min(len(c.x), drawnRows))
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(c.x[a], c.x[b]) })
	sorted := func(v []float64) []float64 {
		out := make([]float64, len(order))
		for i, index := range order {
			out[i] = v[index]
		}
		return out
	}
	top, bottom := make([]*experiment.Figure, 2), make([]*experiment.Figure, 2)
	for j, method := range []string{"separate", "joint"} {
		m := slices.Index(crossingMethods(), method)
		curves := make([][]float64, len(levels))
		for i, l := range levels {
			curves[i] = sorted(c.quantileColumn(m, l))
		}
		top[j] = c.plotQuantiles(method+" estimation", sorted(c.x), sorted(c.y), curves, levels)
		bottom[j] = c.plotDifferences(sorted(c.x), curves, levels, c.crossingRate(m, levels))
	}
	unifyYRange(top)
	unifyYRange(bottom)
	return experiment.Save(path, 22, 15, top, bottom)
}

// unifyYRange gives all plots of a row the same y range.
func unifyYRange(row []*experiment.Figure) {
	for _, p := range row {
		row[0].Y.Min, row[0].Y.Max = min(row[0].Y.Min, p.Y.Min), max(row[0].Y.Max, p.Y.Max)
	}
	for _, p := range row {
		p.Y.Min, p.Y.Max = row[0].Y.Min, row[0].Y.Max
	}
}

// crossingRate returns the fraction of rows whose quantiles at the given levels cross.
func (c crossingCurves) crossingRate(method int, levels []int) float64 {
	var selected []float32
	for row := range slices.Chunk(c.quantiles[method], len(c.levels)) {
		for _, l := range levels {
			selected = append(selected, row[l])
		}
	}
	rows, _ := experiment.Crossing(selected, len(levels))
	return rows
}

// integerTicks places at most eight ticks, at whole numbers. If the range is below 2, it
// uses the default ticks of gonum/plot.
type integerTicks struct{}

func (integerTicks) Ticks(low, high float64) []plot.Tick {
	if high-low < 2 {
		return plot.DefaultTicks{}.Ticks(low, high)
	}
	var ticks []plot.Tick
	step := math.Ceil((high - low) / 7)
	for v := math.Ceil(low/step) * step; v <= high; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)})
	}
	return ticks
}

func (c crossingCurves) plotQuantiles(title string, x, y []float64, curves [][]float64, levels []int) *experiment.Figure {
	p := experiment.NewFigure(title, "", "y")
	p.X.Tick.Marker = integerTicks{}
	dots := p.Dots(x, y, experiment.Dot(experiment.RGB(0x6b7280, 0x50), 1, draw.CircleGlyph{}))
	p.Add(dots)
	p.Legend.Add("test rows of "+c.set, dots)
	for i := len(curves) - 1; i >= 0; i-- {
		line := p.Line(x, curves[i], experiment.Color(i), .8)
		p.Add(line)
		p.Legend.Add(fmt.Sprintf("quantile %g", c.levels[levels[i]]), line)
	}
	p.Y.Max += .45 * (p.Y.Max - p.Y.Min) // room for the legend
	return p
}

func (c crossingCurves) plotDifferences(x []float64, curves [][]float64, levels []int, crossingRate float64) *experiment.Figure {
	p := experiment.NewFigure("", "first input x₁", "difference of quantiles")
	p.X.Tick.Marker = integerTicks{}
	for i := len(curves) - 1; i > 0; i-- {
		differences := make([]float64, len(x))
		for row := range differences {
			differences[row] = curves[i][row] - curves[i-1][row]
		}
		dots := p.Dots(x, differences, experiment.Dot(experiment.Color(i+1), 1.2, draw.CircleGlyph{}))
		p.Add(dots)
		p.Legend.Add(fmt.Sprintf("quantile %g − quantile %g", c.levels[levels[i]], c.levels[levels[i-1]]), dots)
	}
	zero := p.Dashed([]float64{x[0], x[len(x)-1]}, []float64{0, 0}, experiment.Ink(), .9)
	p.Add(zero)
	p.Legend.Add(fmt.Sprintf("below zero: crossed, %.1f %% of rows", 100*crossingRate), zero)
	p.Y.Max += .3 * (p.Y.Max - p.Y.Min)
	return p
}

// plotRates plots the fraction of rows with crossings on each set, with one point for each
// seed.
func plotRates(results []crossingResult, path string) error {
	p := experiment.NewFigure("Rows of which any two neighbouring levels cross", "", "share of test rows")
	sets := setNames(results)
	p.NominalX(sets...)
	for i, method := range []string{"separate", "joint"} {
		var x, rates, positions, means []float64
		for s, set := range sets {
			var fractions []float64
			for _, r := range resultsFor(results, set, method) {
				fractions = append(fractions, r.rowFraction)
				x = append(x, float64(s)+.24*(float64(i)-.5))
			}
			rates = append(rates, fractions...)
			positions, means = append(positions, float64(s)+.24*(float64(i)-.5)), append(means, stat.Mean(fractions, nil))
		}
		paleColor := experiment.Color(i)
		paleColor.A = 0x60
		mean := p.Dots(positions, means, experiment.Dot(experiment.Color(i), 4, draw.RingGlyph{}))
		p.Add(p.Dots(x, rates, experiment.Dot(paleColor, 1.8, draw.CircleGlyph{})), mean)
		p.Legend.Add(method+", mean of the seeds", mean)
	}
	p.X.Min, p.X.Max = -.5, float64(len(sets))-.5
	p.Y.Min, p.Y.Max = -.02, 1.25
	var ticks plot.ConstantTicks
	for percent := 0; percent <= 100; percent += 25 {
		ticks = append(ticks, plot.Tick{Value: float64(percent) / 100, Label: fmt.Sprintf("%d %%", percent)})
	}
	p.Y.Tick.Marker = ticks
	return experiment.Save(path, 20, 9, []*experiment.Figure{p})
}
