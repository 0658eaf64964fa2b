package figure1

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// shownCertificates is the index of the variant whose score is drawn around the median.
const shownCertificates = 2

// plot draws the intervals at the top and the scores at the bottom.
func (c toyCurves) plot(path string) error {
	return experiment.Save(path, 18, 16, []*experiment.Figure{c.plotIntervals()}, []*experiment.Figure{c.plotScores()})
}

func (c toyCurves) plotIntervals() *experiment.Figure {
	p := experiment.NewFigure("Aleatoric and epistemic uncertainty of one network", "", "y")
	median := c.quantiles[1]
	score := c.scores[shownCertificates]
	minScore, maxScore := slices.Min(score), slices.Max(score)
	lower, upper := make([]float64, len(c.x)), make([]float64, len(c.x))
	for i, v := range score {
		halfWidth := 3 * (v - minScore) / (maxScore - minScore)
		lower[i], upper[i] = median[i]-halfWidth, median[i]+halfWidth
	}
	scoreBand := p.Band(c.x, lower, upper, experiment.RGB(0xc23b82, 0x38))
	band := p.Band(c.x, c.quantiles[0], c.quantiles[len(c.quantiles)-1], experiment.RGB(0x333d4a, 0x48))
	dots := p.Dots(c.data.x, c.data.y, experiment.Dot(experiment.RGB(0x2f6fde, 0x60), 1.2, draw.CircleGlyph{}))
	solid := p.Line(c.x, median, experiment.Ink(), 1.6)
	p.Add(scoreBand, band, dots, solid)
	p.Legend.Add("rows trained on", dots)
	p.Legend.Add("median", solid)
	for l := 2; l < len(c.quantiles)-1; l++ {
		dashed := p.Dashed(c.x, c.quantiles[l], experiment.Ink(), .9)
		if p.Add(dashed); l == 2 {
			p.Legend.Add("65 % and 80 % quantiles", dashed)
		}
	}
	p.Legend.Add("95 % interval (aleatoric)", band)
	p.Legend.Add("median ± scaled score (epistemic)", scoreBand)
	p.Legend.Top, p.Legend.XOffs = false, -5.5*vg.Centimeter
	p.X.Min, p.X.Max, p.X.Tick.Marker = drawFrom, drawTo, toyTicks()
	p.Y.Min, p.Y.Max = -4.4, 4
	return p
}

// plotScores plots scores divided by their thresholds. It plots logarithms on a linear axis
// because a logarithmic axis of gonum/plot leaves a gap above the axis.
func (c toyCurves) plotScores() *experiment.Figure {
	p := experiment.NewFigure("", "x", "certificate score / threshold")
	low, high := 0., 0.
	for v, scores := range c.scores {
		relative := make([]float64, len(scores))
		for i, s := range scores {
			relative[i] = math.Log10(max(s/c.threshold[v], 1e-3))
			low, high = min(low, relative[i]), max(high, relative[i])
		}
		line := p.Line(c.x, relative, experiment.Color(v), 1.4)
		p.Add(line)
		p.Legend.Add(c.variants[v], line)
	}
	thresholdLine := p.Dashed([]float64{drawFrom, drawTo}, []float64{0, 0}, experiment.Ink(), .8)
	p.Add(thresholdLine)
	p.Legend.Add("threshold: 5 % of data above", thresholdLine)
	for _, ends := range [][]float64{{dataFrom, gapFrom}, {gapTo, dataTo}} {
		p.Add(p.Band(ends, []float64{low, low}, []float64{high, high}, experiment.RGB(0x2f6fde, 0x18)))
		label := &plotter.Labels{XYs: plotter.XYs{{X: ends[0] + .02, Y: high - .6}}, Labels: []string{"data here"}, TextStyle: []draw.TextStyle{p.Legend.TextStyle}}
		p.Add(label)
	}
	p.Y.Tick.Marker = experiment.Decades(low, high)
	p.X.Min, p.X.Max, p.X.Tick.Marker = drawFrom, drawTo, toyTicks()
	p.Y.Min, p.Y.Max = low, high
	p.Legend.Top, p.Legend.XOffs = false, -5.5*vg.Centimeter
	return p
}

func toyTicks() plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for x := drawFrom; x <= drawTo; x += .5 {
		ticks = append(ticks, plot.Tick{Value: x, Label: fmt.Sprint(x)})
	}
	return ticks
}
