package abalone

import (
	"cmp"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// plotResults plots the intervals of the test rows of the first split, and the error rate
// by decile over all splits.
func plotResults(results []formResult, coverage float64, path string) error {
	return experiment.Save(path, 24, 10, []*experiment.Figure{plotScores(results[1], coverage), plotDeciles(results)})
}

// plotScores plots the median score and the interval of each row, in ascending order of the
// mean over levels. Dots below 0 and above 1 mark the true classes.
func plotScores(r formResult, coverage float64) *experiment.Figure {
	p := experiment.NewFigure(fmt.Sprintf("Class score of test rows and its %g %% interval: %s", 100*coverage, r.form.name), "test rows, by their mean score", "class score: 0 young, 1 old")
	order := experiment.Indices(len(r.predictions))
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(r.predictions[a].mean, r.predictions[b].mean) })
	var x, y [3][]float64 // three series: medians, young rows, old rows
	for position, i := range order {
		prediction := r.predictions[i]
		bar := p.Line([]float64{float64(position), float64(position)}, []float64{prediction.lower, prediction.upper}, experiment.RGB(0x2f6fde, 0x50), .6)
		p.Add(bar)
		if position == 0 {
			thick := *bar
			thick.LineStyle.Width = vg.Points(3)
			p.Legend.Add("interval", &thick)
		}
		class := experiment.Indicator(r.old[i])
		x[0], y[0] = append(x[0], float64(position)), append(y[0], prediction.score)
		series := 1 + int(class)
		x[series], y[series] = append(x[series], float64(position)), append(y[series], 1.34*class-.17)
	}
	for i, name := range []string{"median", "truly young", "truly old"} {
		dots := p.Dots(x[i], y[i], experiment.Dot(experiment.Color(i), 1.2, draw.CircleGlyph{}))
		p.Add(dots)
		p.Legend.Add(name, dots)
	}
	p.Legend.Left = true
	p.Y.Min, p.Y.Max = -.25, 1.7
	p.Y.Tick.Marker = plot.ConstantTicks{{Value: 0, Label: "0"}, {Value: .5, Label: "0.5"}, {Value: 1, Label: "1"}}
	return p
}

// plotDeciles plots the mean error rate of each decile, with its standard error over
// splits.
func plotDeciles(results []formResult) *experiment.Figure {
	p := experiment.NewFigure("Error rate by decile of the test rows", "decile of the rows, most confident first", "error rate")
	var ticks plot.ConstantTicks
	for t := range 10 {
		ticks = append(ticks, plot.Tick{Value: float64(t + 1), Label: fmt.Sprint(t + 1)})
	}
	for i, r := range results {
		var x, rates, errors []float64
		for t := range 10 {
			values := r.values(func(m classMeasures) float64 { return m.decileErrors[t] })
			mean, std := stat.MeanStdDev(values, nil)
			x, rates = append(x, float64(t+1)+.08*(float64(i)-1.5)), append(rates, mean)
			errors = append(errors, stat.StdErr(std, float64(len(values))))
		}
		ink := experiment.Color(i)
		line, dots := p.Line(x, rates, ink, 1.2), p.Dots(x, rates, experiment.Dot(ink, 2.2, draw.CircleGlyph{}))
		p.Add(line, p.Bars(x, rates, errors, errors, ink, 3), dots)
		measure := "by the interval's width"
		if i == 0 {
			measure = "by the smaller probability"
		}
		p.Legend.Add(r.form.name+", "+measure, line, dots)
	}
	p.Legend.Left = true
	p.X.Tick.Marker = ticks
	p.X.Min, p.X.Max, p.Y.Min = .5, 10.5, 0
	p.Y.Max *= 1.35
	return p
}
