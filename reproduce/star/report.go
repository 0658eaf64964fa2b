package star

import (
	"fmt"
	"path/filepath"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot/vg/draw"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

func (s *settings) report(data starData, epochs [2]int, effects []effect) error {
	lines := [][]string{{
		"level", "predicted", "refits_std", "lower", "upper", "marginal", "marginal_lower", "marginal_upper",
		"empirical", "empirical_lower", "empirical_upper",
	}}
	for _, e := range effects {
		lines = append(lines, experiment.Cells(6, e.level, e.mean, e.refitStdDev, e.meanBand[0], e.meanBand[1], e.marginal, e.marginalBand[0], e.marginalBand[1],
			e.empirical, e.empiricalBand[0], e.empiricalBand[1]))
	}
	if err := experiment.WriteCSV(filepath.Join(s.Out, "star.csv"), lines); err != nil {
		return err
	}
	fmt.Fprintf(s.Stdout, "effect of a small class on ach_score, given exp: %d children in small classes, %d in regular ones (%d without exp or score left out)\n",
		data.small.x.Rows, data.regular.x.Rows, data.dropped)
	fmt.Fprintf(s.Stdout, "%d networks on all rows, %d bootstrap samples of %s, %d and %d epochs, averaging %g; bands hold %g %% of the samples\n",
		s.refits, s.Seeds, s.resample, epochs[0], epochs[1], s.averaging, 100*s.coverage)
	fmt.Fprintf(s.Stdout, "%5s  %29s  %24s  %24s\n", "level", "predicted ± refits, band", "marginal, band", "empirical, band")
	for _, e := range effects {
		fmt.Fprintf(s.Stdout, "%5.1f  %7.2f ± %4.2f [%6.2f, %6.2f]  %7.2f [%6.2f, %6.2f]  %7.2f [%6.2f, %6.2f]\n", e.level,
			e.mean, e.refitStdDev, e.meanBand[0], e.meanBand[1], e.marginal, e.marginalBand[0], e.marginalBand[1], e.empirical, e.empiricalBand[0], e.empiricalBand[1])
	}
	fmt.Fprintf(s.Stdout, "mean ach_score: %.2f higher in small classes\n",
		stat.Mean(experiment.Column(data.small.y), nil)-stat.Mean(experiment.Column(data.regular.y), nil))
	fmt.Fprintln(s.Stdout, "the paper prints no figures: a box plot over 30 refits, from which it reads a larger effect at larger scores")
	return s.plot(effects, filepath.Join(s.Out, "star"))
}

func (s *settings) plot(effects []effect, path string) error {
	p := experiment.NewFigure("Effect of a small class on the quantiles of the exam score", "quantile level", "points of ach_score")
	var levels, mean, lower, upper, empirical, barBelow, barAbove []float64
	for _, e := range effects {
		levels, mean, empirical = append(levels, e.level), append(mean, e.mean), append(empirical, e.empirical)
		lower, upper = append(lower, e.meanBand[0]), append(upper, e.meanBand[1])
		barBelow, barAbove = append(barBelow, max(e.empirical-e.empiricalBand[0], 0)), append(barAbove, max(e.empiricalBand[1]-e.empirical, 0))
	}
	fill := experiment.Color(0)
	fill.A = 0x30
	band := p.Band(levels, lower, upper, fill)
	curve := p.Line(levels, mean, experiment.Color(0), 1.8)
	dots := p.Dots(levels, mean, experiment.Dot(experiment.Color(0), 3, draw.CircleGlyph{}))
	points := p.Dots(levels, empirical, experiment.Dot(experiment.Color(1), 3, draw.PyramidGlyph{}))
	p.Add(band, curve, dots, p.Bars(levels, empirical, barBelow, barAbove, experiment.Color(1), 4), points)
	p.Legend.Add("mean predicted quantiles", curve, dots)
	p.Legend.Add(fmt.Sprintf("its %g %% bootstrap band, drawing %s", 100*s.coverage, s.resample), band)
	p.Legend.Add("quantiles of the scores themselves", points)
	p.Legend.Left = true
	p.X.Min, p.X.Max, p.Y.Min = .05, .95, min(p.Y.Min, 0)
	p.Y.Max += .25 * (p.Y.Max - p.Y.Min) // room for the legend
	return experiment.Save(path, 16, 10, []*experiment.Figure{p})
}
