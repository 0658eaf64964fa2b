package table1

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// widths is a series of points with error bars.
type widths struct{ x, y, below, above []float64 }

// plotTable plots the width of each method's intervals on each set, raw and conformalized,
// next to the paper's. A row has no point if no model is in range, or if the intervals are
// unbounded.
func plotTable(rows []tableRow, seeds int, path string) error {
	var sets, series []string
	for _, r := range rows {
		if !slices.Contains(sets, r.set) {
			sets = append(sets, r.set)
		}
		if !slices.Contains(series, r.method) {
			series = append(series, r.method)
		}
	}
	p := experiment.NewFigure(fmt.Sprintf("Width of %g %% intervals on test rows: mean and standard deviation over %d splits", 100*rows[0].coverage, seeds), "",
		"width / range of the target")
	p.NominalX(sets...)
	p.X.Min, p.X.Max = -.5, float64(len(sets))-.5
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(logTicks())
	p.Legend.Left = true
	for i := range len(sets) - 1 {
		p.Add(boundary{float64(i) + .5})
	}
	gray := experiment.Color(7)
	shapes := []struct { // one shape for each row of a method
		name  string
		style draw.GlyphStyle
	}{
		{"as trained", experiment.Dot(gray, 3, draw.CircleGlyph{})}, {"+ CQR", experiment.Dot(gray, 3, draw.PyramidGlyph{})},
		{"in the paper", experiment.Dot(gray, 4.5, draw.RingGlyph{})},
	}
	low, high := math.Inf(1), math.Inf(-1)
	for i, method := range series {
		var raw, cqr, paper widths
		for _, r := range rows {
			if r.method != method {
				continue
			}
			position := float64(slices.Index(sets, r.set)) + .8*((float64(i)+.5)/float64(len(series))-.5)
			add := func(series *widths, shift, mean, std float64) {
				if !(mean > 0) || math.IsInf(mean, 0) {
					return
				}
				below := min(std, .9*mean) // a logarithmic axis cannot show zero
				series.x, series.y = append(series.x, position+shift), append(series.y, mean)
				series.below, series.above = append(series.below, below), append(series.above, std)
				low, high = min(low, mean-below), max(high, mean+std)
			}
			if r.cqr {
				add(&cqr, .025, r.selected.mpiw, r.selected.mpiwStd)
				continue
			}
			add(&raw, 0, r.selected.mpiw, r.selected.mpiwStd)
			if r.published {
				add(&paper, -.025, r.paper.mpiw, 0)
			}
		}
		for j, points := range []widths{raw, cqr, paper} {
			if len(points.x) == 0 {
				continue
			}
			style := shapes[j].style
			style.Color = experiment.Color(i)
			if j < 2 {
				p.Add(p.Bars(points.x, points.y, points.below, points.above, style.Color, 3))
			}
			p.Add(p.Dots(points.x, points.y, style))
		}
		p.Legend.Add(method, glyph(experiment.Dot(experiment.Color(i), 3, draw.BoxGlyph{})))
	}
	for _, s := range shapes {
		p.Legend.Add(s.name, glyph(s.style))
	}
	if low < high {
		p.Y.Min, p.Y.Max = low*.9, high*(2+.4*float64(len(series))) // room for the legend
	} else {
		p.Y.Min, p.Y.Max = .01, 1
	}
	return experiment.Save(path, 26, 14, []*experiment.Figure{p})
}

// glyph draws a legend entry.
type glyph draw.GlyphStyle

// Thumbnail implements plot.Thumbnailer.
func (g glyph) Thumbnail(c *draw.Canvas) { c.DrawGlyph(draw.GlyphStyle(g), c.Center()) }

// boundary is a vertical line between two sets.
type boundary struct{ x float64 }

// Plot implements plot.Plotter.
func (b boundary) Plot(c draw.Canvas, p *plot.Plot) {
	toCanvas, _ := p.Transforms(&c)
	c.StrokeLine2(draw.LineStyle{Color: experiment.Pale(), Width: vg.Points(.5)}, toCanvas(b.x), c.Min.Y, toCanvas(b.x), c.Max.Y)
}

func logTicks() []plot.Tick {
	var ticks []plot.Tick
	for _, v := range []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5} {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)})
	}
	return ticks
}
