package main

import (
	"fmt"
	"image/color"
	"io"

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

// figureBand is the area between two curves over increasing x.
func figureBand(x, lower, upper []float64, fill color.Color) (*plotter.Polygon, error) {
	edge := make(plotter.XYs, 0, 2*len(x))
	for i := range x {
		edge = append(edge, plotter.XY{X: x[i], Y: lower[i]})
	}
	for i := len(x) - 1; i >= 0; i-- {
		edge = append(edge, plotter.XY{X: x[i], Y: upper[i]})
	}
	band, err := plotter.NewPolygon(edge)
	if err != nil {
		return nil, fmt.Errorf("draw a band: %w", err)
	}
	band.Color, band.LineStyle.Width = fill, 0
	return band, nil
}

// figureLine is a curve.
func figureLine(x, y []float64, ink color.Color, width vg.Length, dashes ...vg.Length) (*plotter.Line, error) {
	line, err := plotter.NewLine(figurePoints(x, y))
	if err != nil {
		return nil, fmt.Errorf("draw a line: %w", err)
	}
	line.LineStyle = draw.LineStyle{Color: ink, Width: width, Dashes: dashes}
	return line, nil
}

// figureDots are rows of data.
func figureDots(x, y []float64, ink color.Color, radius vg.Length) (*plotter.Scatter, error) {
	dots, err := plotter.NewScatter(figurePoints(x, y))
	if err != nil {
		return nil, fmt.Errorf("draw points: %w", err)
	}
	dots.GlyphStyle = draw.GlyphStyle{Color: ink, Radius: radius, Shape: draw.CircleGlyph{}}
	return dots, nil
}

func figurePoints(x, y []float64) plotter.XYs {
	points := make(plotter.XYs, len(x))
	for i := range x {
		points[i] = plotter.XY{X: x[i], Y: y[i]}
	}
	return points
}

// savePanels writes path.png and path.svg of plots in rows of equal length,
// their axes aligned.
func savePanels(panels [][]*plot.Plot, width, height vg.Length, path string) error {
	tiles := draw.Tiles{
		Rows: len(panels), Cols: len(panels[0]), PadX: vg.Points(12), PadY: vg.Points(8),
		PadTop: vg.Points(4), PadBottom: vg.Points(4), PadLeft: vg.Points(4), PadRight: vg.Points(8),
	}
	for _, format := range []string{"png", "svg"} {
		canvas, err := draw.NewFormattedCanvas(width, height, format)
		if err != nil {
			return fmt.Errorf("draw %s.%s: %w", path, format, err)
		}
		for i, row := range plot.Align(panels, tiles, draw.New(canvas)) {
			for j, c := range row {
				panels[i][j].Draw(c)
			}
		}
		write := func(w io.Writer) error {
			_, err := canvas.WriteTo(w)
			return err
		}
		if err := writeFile(path+"."+format, write); err != nil {
			return err
		}
	}
	return nil
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

// newInk is a color 0xRRGGBB with an opacity.
func newInk(rgb uint32, alpha uint8) color.NRGBA {
	return color.NRGBA{uint8(rgb >> 16), uint8(rgb >> 8), uint8(rgb), alpha}
}
