package experiment

import (
	"cmp"
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Figure is a plot in the common style. It stores the first drawing error, which Save
// returns.
type Figure struct {
	*plot.Plot
	err error
}

// NewFigure returns an empty figure.
func NewFigure(title, x, y string) *Figure {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	for _, t := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		t.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(9)}
		t.Color = Ink()
	}
	p.Title.TextStyle.Font.Size = vg.Points(11)
	p.Title.Padding = vg.Points(6)
	p.Legend.Top, p.Legend.Padding = true, vg.Points(2)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Horizontal.Width, grid.Vertical.Width = Pale(), vg.Points(.5), 0
	p.Add(grid)
	p.BackgroundColor = color.White
	return &Figure{Plot: p}
}

// Ink returns the default colour of text and lines.
func Ink() color.NRGBA { return RGB(0x333d4a, 0xff) }

// Pale returns the colour of lines that guide the eye.
func Pale() color.NRGBA { return RGB(0xe3e7ec, 0xff) }

// RGB returns the colour 0xRRGGBB with opacity alpha.
func RGB(rgb uint32, alpha uint8) color.NRGBA {
	return color.NRGBA{uint8(rgb >> 16), uint8(rgb >> 8), uint8(rgb), alpha}
}

// Color returns the colour of series i. The palette has eight colours that remain
// distinguishable with most kinds of colour blindness.
func Color(i int) color.NRGBA {
	palette := [...]uint32{0x2f6fde, 0xe4572e, 0x1b9e77, 0x8e5bd0, 0xd99a00, 0x17a2b8, 0xc23b82, 0x6b7280}
	return RGB(palette[i%len(palette)], 0xff)
}

// Band fills the area between two curves over increasing x.
func (f *Figure) Band(x, lower, upper []float64, fill color.Color) *plotter.Polygon {
	edge := points(x, lower)
	for i := len(x) - 1; i >= 0; i-- {
		edge = append(edge, plotter.XY{X: x[i], Y: upper[i]})
	}
	band, err := plotter.NewPolygon(edge)
	if f.err = cmp.Or(f.err, err); err != nil {
		return &plotter.Polygon{}
	}
	band.Color, band.LineStyle.Width = fill, 0
	return band
}

// Line draws a curve with a width in points.
func (f *Figure) Line(x, y []float64, ink color.Color, width float64, dashes ...vg.Length) *plotter.Line {
	line, err := plotter.NewLine(points(x, y))
	if f.err = cmp.Or(f.err, err); err != nil {
		return &plotter.Line{}
	}
	line.LineStyle = draw.LineStyle{Color: ink, Width: vg.Points(width), Dashes: dashes}
	return line
}

// Dashed draws a dashed curve.
func (f *Figure) Dashed(x, y []float64, ink color.Color, width float64) *plotter.Line {
	return f.Line(x, y, ink, width, vg.Points(4), vg.Points(2))
}

// Dots draws a glyph at each point.
func (f *Figure) Dots(x, y []float64, glyph draw.GlyphStyle) *plotter.Scatter {
	dots, err := plotter.NewScatter(points(x, y))
	if f.err = cmp.Or(f.err, err); err != nil {
		return &plotter.Scatter{}
	}
	dots.GlyphStyle = glyph
	return dots
}

// Dot returns a glyph with a radius in points.
func Dot(ink color.Color, radius float64, shape draw.GlyphDrawer) draw.GlyphStyle {
	return draw.GlyphStyle{Color: ink, Radius: vg.Points(radius), Shape: shape}
}

// Bars returns error bars from y−below to y+above, which the caller adds to the figure.
// caps is the width of the caps in points.
func (f *Figure) Bars(x, y, below, above []float64, ink color.Color, caps float64) *plotter.YErrorBars {
	errors := make(plotter.YErrors, len(x))
	for i := range errors {
		errors[i].Low, errors[i].High = below[i], above[i]
	}
	bars, err := plotter.NewYErrorBars(struct {
		plotter.XYs
		plotter.YErrors
	}{points(x, y), errors})
	if f.err = cmp.Or(f.err, err); err != nil {
		return &plotter.YErrorBars{}
	}
	bars.LineStyle.Color, bars.CapWidth = ink, vg.Points(caps)
	return bars
}

func points(x, y []float64) plotter.XYs {
	points := make(plotter.XYs, len(x))
	for i := range x {
		points[i] = plotter.XY{X: x[i], Y: y[i]}
	}
	return points
}

// Decades returns ticks for an axis of base-10 logarithms: one at each integer from low to
// high, labelled with the power of ten.
func Decades(low, high float64) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for e := math.Ceil(low); e <= high; e++ {
		ticks = append(ticks, plot.Tick{Value: e, Label: fmt.Sprintf("%g", math.Pow(10, e))})
	}
	return ticks
}

// Save writes figures to path.png and path.svg. Each argument in figures is a row, and all
// rows must have the same length. The axes are aligned. Width and height are in
// centimetres.
func Save(path string, width, height float64, figures ...[]*Figure) error {
	plots := make([][]*plot.Plot, len(figures))
	for i, row := range figures {
		for _, f := range row {
			if f.err != nil {
				return fmt.Errorf("draw %s: %w", path, f.err)
			}
			plots[i] = append(plots[i], f.Plot)
		}
	}
	tiles := draw.Tiles{
		Rows: len(plots), Cols: len(plots[0]), PadX: vg.Points(12), PadY: vg.Points(8),
		PadTop: vg.Points(4), PadBottom: vg.Points(4), PadLeft: vg.Points(4), PadRight: vg.Points(8),
	}
	for _, format := range []string{"png", "svg"} {
		canvas, err := draw.NewFormattedCanvas(vg.Length(width)*vg.Centimeter, vg.Length(height)*vg.Centimeter, format)
		if err != nil {
			return fmt.Errorf("draw %s.%s: %w", path, format, err)
		}
		for i, row := range plot.Align(plots, tiles, draw.New(canvas)) {
			for j, c := range row {
				plots[i][j].Draw(c)
			}
		}
		if err := WriteFile(path+"."+format, func(w io.Writer) error { _, err := canvas.WriteTo(w); return err }); err != nil {
			return err
		}
	}
	return nil
}
