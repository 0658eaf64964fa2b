package table3

import (
	"fmt"

	"gonum.org/v1/plot/vg/draw"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// plotTable plots the accuracies for each set next to the paper's. The bottom panels show
// accuracy by the fraction of pairs decided.
func plotTable(sets []pairSet, chosen []method, cells []cell, path string) error {
	var names []string
	for _, m := range chosen {
		names = append(names, m.name)
	}
	top := make([]*experiment.Figure, len(sets))
	bottom := make([]*experiment.Figure, len(sets))
	for i, set := range sets {
		var rowPositions, measured, paperPositions, paperAccuracies []float64
		top[i] = experiment.NewFigure(fmt.Sprintf("%s, %d pairs", set.name, len(set.pairs)), "accuracy", "")
		bottom[i] = experiment.NewFigure("", "share decided", "accuracy")
		series := 0
		for _, c := range cells {
			if c.set.name != set.name {
				continue
			}
			row := float64(len(names) - 1 - len(rowPositions))
			rowPositions, measured = append(rowPositions, row), append(measured, c.accuracy)
			if c.published {
				paperPositions, paperAccuracies = append(paperPositions, row), append(paperAccuracies, c.paper)
			}
			top[i].Add(top[i].Line([]float64{c.accuracy - c.stderr, c.accuracy + c.stderr}, []float64{row, row}, experiment.Color(0), 1))
			// Three curves keep the panel readable: the paper's best method and the best
			// two others.
			if shown := c.method == "sqr-m5" || c.method == "qccd-m3" || c.method == "igci-g"; shown {
				fractions, accuracies := accuracyCurve(c.decisions)
				line := bottom[i].Line(fractions, accuracies, experiment.Color(series), 1.2)
				bottom[i].Add(line)
				bottom[i].Legend.Add(c.method, line)
				series++
			}
		}
		measuredDots := top[i].Dots(measured, rowPositions, experiment.Dot(experiment.Color(0), 3, draw.CircleGlyph{}))
		top[i].Add(measuredDots)
		if len(paperAccuracies) > 0 {
			paperDots := top[i].Dots(paperAccuracies, paperPositions, experiment.Dot(experiment.Color(1), 4, draw.RingGlyph{}))
			top[i].Add(paperDots)
			if i == 0 {
				top[i].Legend.Add("ours", measuredDots)
				top[i].Legend.Add("the paper's", paperDots)
			}
		}
		labels := make([]string, len(names))
		for j, n := range names {
			labels[len(names)-1-j] = n
		}
		top[i].NominalY(labels...)
		top[i].X.Min, top[i].X.Max, top[i].Y.Min, top[i].Y.Max = 0, 1, -.5, float64(len(names))+.7 // 0.7 leaves room for the legend
		bottom[i].X.Min, bottom[i].X.Max, bottom[i].Y.Min, bottom[i].Y.Max = 0, 1, 0, 1.02
		bottom[i].Legend.Top = false
	}
	return experiment.Save(path, max(6.5*float64(len(sets)), 10), 16, top, bottom)
}
