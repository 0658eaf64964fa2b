package main

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// widths are points of one series with errors.
type widths struct {
	plotter.XYs
	plotter.YErrors
}

// plotTable draws the width of each method's intervals on each set, raw and
// conformalized, beside the paper's. A row without a model in range, or whose
// intervals are unbounded, has no point.
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
	p := newFigure(fmt.Sprintf("Width of %g %% intervals on test rows: mean and standard deviation over %d splits", 100*rows[0].coverage, seeds), "",
		"width / range of the target")
	p.NominalX(sets...)
	p.X.Min, p.X.Max = -.5, float64(len(sets))-.5
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(logTicks())
	p.Legend.Left = true
	for i := range len(sets) - 1 {
		p.Add(boundary{float64(i) + .5})
	}
	low, high := math.Inf(1), math.Inf(-1)
	for i, method := range series {
		var raw, cqr, paper widths
		for _, r := range rows {
			if r.method != method {
				continue
			}
			at := float64(slices.Index(sets, r.set)) + .8*((float64(i)+.5)/float64(len(series))-.5)
			add := func(to *widths, shift, mean, std float64) {
				if !(mean > 0) || math.IsInf(mean, 0) {
					return
				}
				below := min(std, .9*mean) // zero has no place on a logarithmic axis
				to.XYs = append(to.XYs, plotter.XY{X: at + shift, Y: mean})
				to.YErrors = append(to.YErrors, struct{ Low, High float64 }{below, std})
				low, high = min(low, mean-below), max(high, mean+std)
			}
			if r.cqr {
				add(&cqr, .025, r.narrow.mpiw, r.narrow.mpiwStd)
				continue
			}
			add(&raw, 0, r.narrow.mpiw, r.narrow.mpiwStd)
			if r.published {
				add(&paper, -.025, r.paper.mpiw, 0)
			}
		}
		if err := addWidths(p, method, i, raw, cqr, paper); err != nil {
			return err
		}
	}
	for _, s := range figureShapes() {
		p.Legend.Add(s.name, glyph(draw.GlyphStyle{Color: figureColor(7), Radius: s.radius, Shape: s.shape}))
	}
	if low < high {
		p.Y.Min, p.Y.Max = low*.9, high*(2+.4*float64(len(series))) // room for the legend
	} else {
		p.Y.Min, p.Y.Max = .01, 1
	}
	return saveFigure(p, 26*vg.Centimeter, 14*vg.Centimeter, path)
}

// figureShape tells the rows of one method apart.
type figureShape struct {
	name   string
	shape  draw.GlyphDrawer
	radius vg.Length
}

func figureShapes() [3]figureShape {
	return [...]figureShape{
		{"as trained", draw.CircleGlyph{}, vg.Points(3)}, {"+ CQR", draw.PyramidGlyph{}, vg.Points(3)}, {"in the paper", draw.RingGlyph{}, vg.Points(4.5)},
	}
}

func addWidths(p *plot.Plot, method string, i int, raw, cqr, paper widths) error {
	for s, of := range []widths{raw, cqr, paper} {
		if len(of.XYs) == 0 {
			continue
		}
		points, err := plotter.NewScatter(of.XYs)
		if err != nil {
			return fmt.Errorf("widths of %s: %w", method, err)
		}
		shape := figureShapes()[s]
		points.GlyphStyle = draw.GlyphStyle{Color: figureColor(i), Radius: shape.radius, Shape: shape.shape}
		bars, err := plotter.NewYErrorBars(of)
		if err != nil {
			return fmt.Errorf("errors of %s: %w", method, err)
		}
		bars.LineStyle.Color, bars.CapWidth = figureColor(i), vg.Points(3)
		if s < 2 {
			p.Add(bars)
		}
		p.Add(points)
	}
	p.Legend.Add(method, glyph(draw.GlyphStyle{Color: figureColor(i), Radius: vg.Points(3), Shape: draw.BoxGlyph{}}))
	return nil
}

// glyph is a legend's entry.
type glyph draw.GlyphStyle

// Thumbnail implements plot.Thumbnailer.
func (g glyph) Thumbnail(c *draw.Canvas) { c.DrawGlyph(draw.GlyphStyle(g), c.Center()) }

// boundary is a vertical line between two sets.
type boundary struct{ x float64 }

// Plot implements plot.Plotter.
func (b boundary) Plot(c draw.Canvas, p *plot.Plot) {
	at, _ := p.Transforms(&c)
	c.StrokeLine2(draw.LineStyle{Color: color.NRGBA{0xe3, 0xe7, 0xec, 0xff}, Width: vg.Points(.5)}, at(b.x), c.Min.Y, at(b.x), c.Max.Y)
}

func logTicks() []plot.Tick {
	var ticks []plot.Tick
	for _, v := range []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5} {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)})
	}
	return ticks
}
