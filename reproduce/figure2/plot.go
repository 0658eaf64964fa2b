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

// drawnRows is the number of test rows in the picture.
const drawnRows = 250

// plot draws, for separate levels on the left and joint ones on the right, the
// lowest, the middle and the highest level of test rows, and below what lies
// between them: less than zero is a crossing.
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
		for i, at := range order {
			out[i] = v[at]
		}
		return out
	}
	above, below := make([]*experiment.Figure, 2), make([]*experiment.Figure, 2)
	for j, method := range []string{"separate", "joint"} {
		m := slices.Index(crossingMethods(), method)
		curves := make([][]float64, len(levels))
		for i, l := range levels {
			curves[i] = sorted(c.level(m, l))
		}
		above[j] = c.plotQuantiles(method+" estimation", sorted(c.x), sorted(c.y), curves, levels)
		below[j] = c.plotDifferences(sorted(c.x), curves, levels, c.crossed(m, levels))
	}
	shareY(above)
	shareY(below)
	return experiment.Save(path, 22, 15, above, below)
}

// shareY gives plots one range of y.
func shareY(row []*experiment.Figure) {
	for _, p := range row {
		row[0].Y.Min, row[0].Y.Max = min(row[0].Y.Min, p.Y.Min), max(row[0].Y.Max, p.Y.Max)
	}
	for _, p := range row {
		p.Y.Min, p.Y.Max = row[0].Y.Min, row[0].Y.Max
	}
}

// crossed is the share of rows whose quantiles at some of the levels cross.
func (c crossingCurves) crossed(method int, levels []int) float64 {
	var some []float32
	for row := range slices.Chunk(c.quantiles[method], len(c.levels)) {
		for _, l := range levels {
			some = append(some, row[l])
		}
	}
	rows, _ := experiment.Crossing(some, len(levels))
	return rows
}

// wholeTicks are about five whole numbers, or gonum/plot's choice where the
// range is small.
type wholeTicks struct{}

func (wholeTicks) Ticks(low, high float64) []plot.Tick {
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
	p.X.Tick.Marker = wholeTicks{}
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

func (c crossingCurves) plotDifferences(x []float64, curves [][]float64, levels []int, crossed float64) *experiment.Figure {
	p := experiment.NewFigure("", "first input x₁", "difference of quantiles")
	p.X.Tick.Marker = wholeTicks{}
	for i := len(curves) - 1; i > 0; i-- {
		between := make([]float64, len(x))
		for row := range between {
			between[row] = curves[i][row] - curves[i-1][row]
		}
		dots := p.Dots(x, between, experiment.Dot(experiment.Color(i+1), 1.2, draw.CircleGlyph{}))
		p.Add(dots)
		p.Legend.Add(fmt.Sprintf("quantile %g − quantile %g", c.levels[levels[i]], c.levels[levels[i-1]]), dots)
	}
	zero := p.Dashed([]float64{x[0], x[len(x)-1]}, []float64{0, 0}, experiment.Ink(), .9)
	p.Add(zero)
	p.Legend.Add(fmt.Sprintf("below zero: crossed, %.1f %% of rows", 100*crossed), zero)
	p.Y.Max += .3 * (p.Y.Max - p.Y.Min)
	return p
}

// plotRates draws the share of rows that cross on each set, a point for each
// seed.
func plotRates(results []crossingResult, path string) error {
	p := experiment.NewFigure("Rows of which any two neighbouring levels cross", "", "share of test rows")
	sets := setsOf(results)
	p.NominalX(sets...)
	for i, method := range []string{"separate", "joint"} {
		var x, rates, at, means []float64
		for s, set := range sets {
			var shares []float64
			for _, r := range resultsOf(results, set, method) {
				shares = append(shares, r.rows)
				x = append(x, float64(s)+.24*(float64(i)-.5))
			}
			rates = append(rates, shares...)
			at, means = append(at, float64(s)+.24*(float64(i)-.5)), append(means, stat.Mean(shares, nil))
		}
		pale := experiment.Color(i)
		pale.A = 0x60
		mean := p.Dots(at, means, experiment.Dot(experiment.Color(i), 4, draw.RingGlyph{}))
		p.Add(p.Dots(x, rates, experiment.Dot(pale, 1.8, draw.CircleGlyph{})), mean)
		p.Legend.Add(method+", mean of the seeds", mean)
	}
	p.X.Min, p.X.Max = -.5, float64(len(sets))-.5
	p.Y.Min, p.Y.Max = -.02, 1.25
	var ticks plot.ConstantTicks
	for share := 0; share <= 100; share += 25 {
		ticks = append(ticks, plot.Tick{Value: float64(share) / 100, Label: fmt.Sprintf("%d %%", share)})
	}
	p.Y.Tick.Marker = ticks
	return experiment.Save(path, 20, 9, []*experiment.Figure{p})
}
