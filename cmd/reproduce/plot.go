package main

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// newFigure is a plot in the style of all figures.
func newFigure(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	ink := color.NRGBA{0x33, 0x3d, 0x4a, 0xff}
	for _, t := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		t.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(9)}
		t.Color = ink
	}
	p.Title.TextStyle.Font.Size = vg.Points(11)
	p.Title.Padding = vg.Points(6)
	p.Legend.Top, p.Legend.Padding = true, vg.Points(2)
	grid := plotter.NewGrid()
	pale := color.NRGBA{0xe3, 0xe7, 0xec, 0xff}
	grid.Horizontal.Color, grid.Horizontal.Width, grid.Vertical.Width = pale, vg.Points(.5), 0
	p.Add(grid)
	p.BackgroundColor = color.White
	return p
}

// figureColor tells up to eight series apart, also for most colour-blind eyes.
func figureColor(i int) color.NRGBA {
	palette := [...]color.NRGBA{
		{0x2f, 0x6f, 0xde, 0xff}, {0xe4, 0x57, 0x2e, 0xff}, {0x1b, 0x9e, 0x77, 0xff}, {0x8e, 0x5b, 0xd0, 0xff},
		{0xd9, 0x9a, 0x00, 0xff}, {0x17, 0xa2, 0xb8, 0xff}, {0xc2, 0x3b, 0x82, 0xff}, {0x6b, 0x72, 0x80, 0xff},
	}
	return palette[i%len(palette)]
}

// saveFigure writes path.png and path.svg.
func saveFigure(p *plot.Plot, width, height vg.Length, path string) error {
	for _, format := range []string{".png", ".svg"} {
		if err := p.Save(width, height, path+format); err != nil {
			return fmt.Errorf("write %s%s: %w", path, format, err)
		}
	}
	return nil
}
