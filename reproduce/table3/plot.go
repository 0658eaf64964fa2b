package table3

import (
	"fmt"

	"gonum.org/v1/plot/vg/draw"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// plotTable draws accuracies of each set beside the paper's, and below them
// accuracy by the share of pairs decided.
func plotTable(sets []pairSet, chosen []method, cells []cell, path string) error {
	var names []string
	for _, m := range chosen {
		names = append(names, m.name)
	}
	top := make([]*experiment.Figure, len(sets))
	bottom := make([]*experiment.Figure, len(sets))
	for i, set := range sets {
		var at, ours, paperAt, papers []float64
		top[i] = experiment.NewFigure(fmt.Sprintf("%s, %d pairs", set.name, len(set.pairs)), "accuracy", "")
		bottom[i] = experiment.NewFigure("", "share decided", "accuracy")
		series := 0
		for _, c := range cells {
			if c.set.name != set.name {
				continue
			}
			row := float64(len(names) - 1 - len(at))
			at, ours = append(at, row), append(ours, c.accuracy)
			if c.published {
				paperAt, papers = append(paperAt, row), append(papers, c.paper)
			}
			top[i].Add(top[i].Line([]float64{c.accuracy - c.stderr, c.accuracy + c.stderr}, []float64{row, row}, experiment.Color(0), 1))
			// The best of the paper's own and of the others are enough to read.
			if shown := c.method == "sqr-m5" || c.method == "qccd-m3" || c.method == "igci-g"; shown {
				shares, accuracies := rates(c.decisions)
				line := bottom[i].Line(shares, accuracies, experiment.Color(series), 1.2)
				bottom[i].Add(line)
				bottom[i].Legend.Add(c.method, line)
				series++
			}
		}
		mine := top[i].Dots(ours, at, experiment.Dot(experiment.Color(0), 3, draw.CircleGlyph{}))
		top[i].Add(mine)
		if len(papers) > 0 {
			theirs := top[i].Dots(papers, paperAt, experiment.Dot(experiment.Color(1), 4, draw.RingGlyph{}))
			top[i].Add(theirs)
			if i == 0 {
				top[i].Legend.Add("ours", mine)
				top[i].Legend.Add("the paper's", theirs)
			}
		}
		labels := make([]string, len(names))
		for j, n := range names {
			labels[len(names)-1-j] = n
		}
		top[i].NominalY(labels...)
		top[i].X.Min, top[i].X.Max, top[i].Y.Min, top[i].Y.Max = 0, 1, -.5, float64(len(names))+.7 // room for the legend
		bottom[i].X.Min, bottom[i].X.Max, bottom[i].Y.Min, bottom[i].Y.Max = 0, 1, 0, 1.02
		bottom[i].Legend.Top = false
	}
	return experiment.Save(path, max(6.5*float64(len(sets)), 10), 16, top, bottom)
}
