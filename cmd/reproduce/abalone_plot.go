package main

import (
	"cmp"
	"fmt"
	"image/color"
	"io"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// plotAbalone draws the intervals of the test rows of the first split, and the
// error rate in tenths of the rows of all splits.
func plotAbalone(results []abaloneResult, coverage float64, path string) error {
	intervals, err := plotScores(results[1], coverage)
	if err != nil {
		return err
	}
	errors, err := plotTenths(results)
	if err != nil {
		return err
	}
	panels := [][]*plot.Plot{{intervals, errors}}
	tiles := draw.Tiles{Rows: 1, Cols: 2, PadX: vg.Points(14), PadTop: vg.Points(4), PadBottom: vg.Points(4), PadLeft: vg.Points(4), PadRight: vg.Points(8)}
	for _, format := range []string{"png", "svg"} {
		canvas, err := draw.NewFormattedCanvas(24*vg.Centimeter, 10*vg.Centimeter, format)
		if err != nil {
			return fmt.Errorf("draw %s.%s: %w", path, format, err)
		}
		for j, c := range plot.Align(panels, tiles, draw.New(canvas))[0] {
			panels[0][j].Draw(c)
		}
		if err := writeFile(path+"."+format, func(w io.Writer) error { _, err := canvas.WriteTo(w); return err }); err != nil {
			return err
		}
	}
	return nil
}

// plotScores draws each row's median score and interval, rows in the order of
// the mean over levels, and the true classes at 0 and 1.
func plotScores(r abaloneResult, coverage float64) (*plot.Plot, error) {
	p := newFigure(fmt.Sprintf("Class score of test rows and its %g %% interval: %s", 100*coverage, r.form.name), "test rows, by their mean score", "class score: 0 young, 1 old")
	order := make([]int, len(r.judged))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(r.judged[a].mean, r.judged[b].mean) })
	var median plotter.XYs
	var classes [2]plotter.XYs
	for at, i := range order {
		j, x := r.judged[i], float64(at)
		bar, err := plotter.NewLine(plotter.XYs{{X: x, Y: j.lower}, {X: x, Y: j.upper}})
		if err != nil {
			return nil, fmt.Errorf("draw an interval: %w", err)
		}
		bar.LineStyle = draw.LineStyle{Color: color.NRGBA{0x2f, 0x6f, 0xde, 0x50}, Width: vg.Points(.6)}
		p.Add(bar)
		if at == 0 {
			thick := *bar
			thick.LineStyle.Width = vg.Points(3)
			p.Legend.Add("interval", &thick)
		}
		median = append(median, plotter.XY{X: x, Y: j.score})
		class := int(indicator(r.old[i]))
		classes[class] = append(classes[class], plotter.XY{X: x, Y: 1.34*float64(class) - .17})
	}
	for i, points := range []plotter.XYs{median, classes[0], classes[1]} {
		dots, err := plotter.NewScatter(points)
		if err != nil {
			return nil, fmt.Errorf("draw scores: %w", err)
		}
		dots.GlyphStyle = draw.GlyphStyle{Color: figureColor(i), Radius: vg.Points(1.2), Shape: draw.CircleGlyph{}}
		p.Add(dots)
		p.Legend.Add([]string{"median", "truly young", "truly old"}[i], dots)
	}
	p.Legend.Left = true
	p.Y.Min, p.Y.Max = -.25, 1.7
	p.Y.Tick.Marker = plot.ConstantTicks{{Value: 0, Label: "0"}, {Value: .5, Label: ".5"}, {Value: 1, Label: "1"}}
	return p, nil
}

// plotTenths draws error rates, the mean over splits and its standard error.
func plotTenths(results []abaloneResult) (*plot.Plot, error) {
	p := newFigure("Errors of the class in tenths of the test rows", "tenth of the rows, the surest first", "share classed wrongly")
	for i, r := range results {
		var rates widths
		for t := range 10 {
			values := r.across(func(m classMeasures) float64 { return m.tenths[t] })
			mean, std := stat.MeanStdDev(values, nil)
			std = stat.StdErr(std, float64(len(values)))
			rates.XYs = append(rates.XYs, plotter.XY{X: float64(t+1) + .08*(float64(i)-1.5), Y: mean})
			rates.YErrors = append(rates.YErrors, struct{ Low, High float64 }{std, std})
		}
		line, dots, err := plotter.NewLinePoints(rates.XYs)
		if err != nil {
			return nil, fmt.Errorf("draw error rates: %w", err)
		}
		line.LineStyle = draw.LineStyle{Color: figureColor(i), Width: vg.Points(1.2)}
		dots.GlyphStyle = draw.GlyphStyle{Color: figureColor(i), Radius: vg.Points(2.2), Shape: draw.CircleGlyph{}}
		bars, err := plotter.NewYErrorBars(rates)
		if err != nil {
			return nil, fmt.Errorf("draw their errors: %w", err)
		}
		bars.LineStyle.Color, bars.CapWidth = figureColor(i), vg.Points(3)
		p.Add(line, bars, dots)
		by := "by the interval's width"
		if i == 0 {
			by = "by the smaller probability"
		}
		p.Legend.Add(r.form.name+", "+by, line, dots)
	}
	p.Legend.Left = true
	var ticks plot.ConstantTicks
	for t := range 10 {
		ticks = append(ticks, plot.Tick{Value: float64(t + 1), Label: fmt.Sprint(t + 1)})
	}
	p.X.Tick.Marker = ticks
	p.X.Min, p.X.Max, p.Y.Min = .5, 10.5, 0
	p.Y.Max *= 1.35
	return p, nil
}
