package table2

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// plotPairs plots AUROCs as a heat map of methods by pairs. The best method is at the top,
// and the mean over all pairs is at the left.
func plotPairs(pairs []pair, summaries []methodSummary, path string) error {
	var shown []methodSummary
	for _, s := range summaries {
		if s.pairs > 0 {
			shown = append(shown, s)
		}
	}
	if len(shown) == 0 {
		return nil
	}
	slices.Reverse(shown)
	p := experiment.NewFigure("AUROC of telling out-of-domain images (higher is better)", "", "")
	p.HideAxes()
	p.Add(tiles{shown, pairs})
	width, height := 1.05*float64(len(pairs)+1)+6.5, .52*float64(len(shown))+7
	return experiment.Save(path, max(width, 14), height, []*experiment.Figure{p})
}

// tiles plots the heat map. Column 0 is the mean, and column i+1 is pair i. Tiles are one
// unit wide and one unit high.
type tiles struct {
	rows  []methodSummary // from bottom to top
	pairs []pair
}

// gapColumns is the gap between the mean and the pairs, and between networks, in column
// widths.
const gapColumns = .2

// columnStart returns the x position at which a column begins.
func (t tiles) columnStart(column int) float64 {
	x := float64(column)
	for i := range column {
		if i == 0 || t.pairs[i-1].network.Name != t.pairs[min(i, len(t.pairs)-1)].network.Name {
			x += gapColumns
		}
	}
	return x
}

// DataRange implements plot.DataRanger.
func (t tiles) DataRange() (xmin, xmax, ymin, ymax float64) {
	return 0, t.columnStart(len(t.pairs)) + 1, 0, float64(len(t.rows))
}

// GlyphBoxes implements plot.GlyphBoxer. It reserves room for the labels at the left and at
// the top.
func (t tiles) GlyphBoxes(p *plot.Plot) []plot.GlyphBox {
	box := func(x, y float64, r vg.Rectangle) plot.GlyphBox { return plot.GlyphBox{X: x, Y: y, Rectangle: r} }
	left := vg.Rectangle{Min: vg.Point{X: -5.2 * vg.Centimeter}}
	above := vg.Rectangle{Max: vg.Point{Y: 5.2 * vg.Centimeter}}
	return []plot.GlyphBox{box(0, 0, left), box(0, 1, above)}
}

// Plot implements plot.Plotter.
func (t tiles) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	style := func(size float64, ink color.Color) text.Style {
		return text.Style{
			Color: ink, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}, XAlign: text.XCenter, YAlign: text.YCenter,
			Handler: plot.DefaultTextHandler,
		}
	}
	ink := experiment.Ink()
	for row, s := range t.rows {
		name := style(8.5, ink)
		name.XAlign = text.XRight
		label := s.method
		if !s.competes {
			label += " †"
		}
		c.FillText(name, vg.Point{X: x(0) - vg.Points(4), Y: y(float64(row) + .5)}, label)
		for column := range len(t.pairs) + 1 {
			value, known := s.mean, true
			if column > 0 {
				cell := t.pairs[column-1].cells[s.method]
				value, known = cell.auroc.Mean, !cell.empty()
			}
			fill, textColor, caption := experiment.RGB(0xf1f3f5, 0xff), ink, "–"
			if known {
				fill, caption = heatColor(value), experiment.Short(value, 2)
				if value > .82 || value < .15 {
					textColor = experiment.RGB(0xffffff, 0xff)
				}
			}
			low, high := vg.Point{X: x(t.columnStart(column)), Y: y(float64(row))}, vg.Point{X: x(t.columnStart(column) + 1), Y: y(float64(row + 1))}
			edge := vg.Points(.4)
			c.FillPolygon(fill, []vg.Point{
				{X: low.X + edge, Y: low.Y + edge}, {X: high.X - edge, Y: low.Y + edge}, {X: high.X - edge, Y: high.Y - edge}, {X: low.X + edge, Y: high.Y - edge},
			})
			c.FillText(style(7.5, textColor), vg.Point{X: (low.X + high.X) / 2, Y: (low.Y + high.Y) / 2}, caption)
		}
	}
	for column := range len(t.pairs) + 1 {
		label := "mean"
		if column > 0 {
			label = t.pairs[column-1].name()
		}
		name := style(8.5, ink)
		name.XAlign, name.Rotation = text.XLeft, 1.5707963
		c.FillText(name, vg.Point{X: x(t.columnStart(column) + .5), Y: y(float64(len(t.rows))) + vg.Points(4)}, label)
	}
}

// heatColor returns the colour of an AUROC. Chance, 0.5, is white. Larger values turn blue and
// smaller ones orange.
func heatColor(auroc float64) color.NRGBA {
	mix := func(target color.NRGBA, weight float64) color.NRGBA {
		channel := func(v uint8) uint8 { return uint8(255 + weight*(float64(v)-255) + .5) }
		return color.NRGBA{channel(target.R), channel(target.G), channel(target.B), 0xff}
	}
	if auroc < .5 {
		return mix(experiment.RGB(0xe4572e, 0xff), min(1, (.5-auroc)/.5))
	}
	weight := (auroc - .5) / .5
	return mix(experiment.RGB(0x123f8c, 0xff), weight*weight)
}
