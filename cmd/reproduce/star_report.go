package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

func (s settings) reportSTAR(data starData, epochs [2]int, effects []effect) error {
	if err := writeFile(filepath.Join(s.star.out, "star.csv"), func(w io.Writer) error { return writeEffects(w, effects) }); err != nil {
		return err
	}
	fmt.Fprintf(s.stdout, "effect of a small class on ach_score, given exp: %d children in small classes, %d in regular ones (%d without exp or score left out)\n",
		data.small.x.Rows, data.regular.x.Rows, data.dropped)
	fmt.Fprintf(s.stdout, "%d networks on all rows, %d bootstrap samples of %s, %d and %d epochs, averaging %g; bands hold %g %% of the samples\n",
		s.star.refits, s.seeds, s.star.resample, epochs[0], epochs[1], s.star.averaging, 100*s.star.coverage)
	fmt.Fprintf(s.stdout, "%5s  %29s  %24s  %24s\n", "level", "predicted ± refits, band", "marginal, band", "empirical, band")
	for _, e := range effects {
		fmt.Fprintf(s.stdout, "%5.1f  %7.2f ± %4.2f [%6.2f, %6.2f]  %7.2f [%6.2f, %6.2f]  %7.2f [%6.2f, %6.2f]\n", e.level,
			e.mean, e.spread, e.band[0], e.band[1], e.marginal, e.marginalBand[0], e.marginalBand[1], e.empirical, e.empiricalBand[0], e.empiricalBand[1])
	}
	fmt.Fprintf(s.stdout, "mean ach_score: %.2f higher in small classes\n",
		stat.Mean(column(data.small.y), nil)-stat.Mean(column(data.regular.y), nil))
	fmt.Fprintln(s.stdout, "the paper prints no figures: a box plot over 30 refits, from which it reads a larger effect at larger scores")
	return s.plotEffects(effects, filepath.Join(s.star.out, "star"))
}

func writeEffects(w io.Writer, effects []effect) error {
	out := csv.NewWriter(w)
	out.Write([]string{
		"level", "predicted", "refits_std", "lower", "upper", "marginal", "marginal_lower", "marginal_upper",
		"empirical", "empirical_lower", "empirical_upper",
	})
	for _, e := range effects {
		var fields []string
		for _, v := range []float64{
			e.level, e.mean, e.spread, e.band[0], e.band[1], e.marginal, e.marginalBand[0], e.marginalBand[1],
			e.empirical, e.empiricalBand[0], e.empiricalBand[1],
		} {
			fields = append(fields, strconv.FormatFloat(v, 'g', 6, 64))
		}
		out.Write(fields)
	}
	out.Flush()
	return out.Error()
}

func (s settings) plotEffects(effects []effect, path string) error {
	p := newFigure("Effect of a small class on the quantiles of the exam score", "quantile level", "points of ach_score")
	var line plotter.XYs
	var edge plotter.XYs
	var empirical widths
	for _, e := range effects {
		line = append(line, plotter.XY{X: e.level, Y: e.mean})
		edge = append(edge, plotter.XY{X: e.level, Y: e.band[0]})
		empirical.XYs = append(empirical.XYs, plotter.XY{X: e.level, Y: e.empirical})
		empirical.YErrors = append(empirical.YErrors, struct{ Low, High float64 }{
			max(e.empirical-e.empiricalBand[0], 0), max(e.empiricalBand[1]-e.empirical, 0),
		})
	}
	for i := len(effects) - 1; i >= 0; i-- {
		edge = append(edge, plotter.XY{X: effects[i].level, Y: effects[i].band[1]})
	}
	band, err := plotter.NewPolygon(edge)
	if err != nil {
		return fmt.Errorf("draw the band: %w", err)
	}
	fill := figureColor(0)
	fill.A = 0x30
	band.Color, band.LineStyle.Width = fill, 0
	curve, dots, err := plotter.NewLinePoints(line)
	if err != nil {
		return fmt.Errorf("draw the effects: %w", err)
	}
	curve.LineStyle = draw.LineStyle{Color: figureColor(0), Width: vg.Points(1.8)}
	dots.GlyphStyle = draw.GlyphStyle{Color: figureColor(0), Radius: vg.Points(3), Shape: draw.CircleGlyph{}}
	bars, err := plotter.NewYErrorBars(empirical)
	if err != nil {
		return fmt.Errorf("draw the empirical bands: %w", err)
	}
	bars.LineStyle.Color, bars.CapWidth = figureColor(1), vg.Points(4)
	points, err := plotter.NewScatter(empirical.XYs)
	if err != nil {
		return fmt.Errorf("draw the empirical effects: %w", err)
	}
	points.GlyphStyle = draw.GlyphStyle{Color: figureColor(1), Radius: vg.Points(3), Shape: draw.PyramidGlyph{}}
	p.Add(band, curve, dots, bars, points)
	p.Legend.Add("mean predicted quantiles", curve, dots)
	p.Legend.Add(fmt.Sprintf("its %g %% bootstrap band, drawing %s", 100*s.star.coverage, s.star.resample), band)
	p.Legend.Add("quantiles of the scores themselves", points)
	p.Legend.Left = true
	p.X.Min, p.X.Max, p.Y.Min = .05, .95, min(p.Y.Min, 0)
	p.Y.Max += .25 * (p.Y.Max - p.Y.Min) // room for the legend
	return saveFigure(p, 16*vg.Centimeter, 10*vg.Centimeter, path)
}
