package main

import (
	"fmt"
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
func plotTable(rows []tableRow, path string) error {
	var sets, series []string
	for _, r := range rows {
		if !slices.Contains(sets, r.set) {
			sets = append(sets, r.set)
		}
		if !slices.Contains(series, r.method) {
			series = append(series, r.method)
		}
	}
	p := newFigure(fmt.Sprintf("Width of %g %% intervals on test rows", 100*rows[0].coverage), "",
		"width / range of the target")
	p.NominalX(sets...)
	p.X.Min, p.X.Max = -.5, float64(len(sets))-.5
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(logTicks())
	p.Legend.Left = true
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
	if low < high {
		p.Y.Min, p.Y.Max = low*.9, high*(1.6+.5*float64(len(series))) // room for the legend
	} else {
		p.Y.Min, p.Y.Max = .01, 1
	}
	return saveFigure(p, 26*vg.Centimeter, 14*vg.Centimeter, path)
}

func addWidths(p *plot.Plot, method string, i int, raw, cqr, paper widths) error {
	for _, s := range []struct {
		widths
		name  string
		shape draw.GlyphDrawer
	}{
		{raw, method, draw.CircleGlyph{}}, {cqr, method + " + CQR", draw.PyramidGlyph{}}, {paper, "", draw.RingGlyph{}},
	} {
		if len(s.XYs) == 0 {
			continue
		}
		points, err := plotter.NewScatter(s.XYs)
		if err != nil {
			return fmt.Errorf("widths of %s: %w", method, err)
		}
		points.GlyphStyle = draw.GlyphStyle{Color: figureColor(i), Radius: vg.Points(3), Shape: s.shape}
		if s.name == "" {
			points.GlyphStyle.Radius = vg.Points(4.5)
			p.Add(points)
			continue
		}
		bars, err := plotter.NewYErrorBars(s.widths)
		if err != nil {
			return fmt.Errorf("errors of %s: %w", method, err)
		}
		bars.LineStyle.Color, bars.CapWidth = figureColor(i), vg.Points(3)
		p.Add(bars, points)
		p.Legend.Add(s.name, points)
	}
	return nil
}

func logTicks() []plot.Tick {
	var ticks []plot.Tick
	for _, v := range []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5} {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)})
	}
	return ticks
}
