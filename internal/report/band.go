package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Colours that the page's theme replaces: of 0 and 255 alone, which stay what
// they are when they are made transparent.
var (
	inColor   = color.NRGBA{0x00, 0x00, 0xff, 0xff}
	outColor  = color.NRGBA{0xff, 0x00, 0x00, 0xff}
	inkColor  = color.NRGBA{0x00, 0xff, 0x00, 0xff}
	gridColor = color.NRGBA{0xff, 0x00, 0xff, 0xff}
)

// themed stands in for the colours above what the page's style says.
func themed() *strings.Replacer {
	return strings.NewReplacer("#0000FF", "var(--in)", "#FF0000", "var(--o1)", "#00FF00", "var(--ink)", "#FF00FF", "var(--line)")
}

func withAlpha(c color.NRGBA, a uint8) color.NRGBA {
	c.A = a
	return c
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	sans := font.Font{Typeface: "Liberation", Variant: "Sans"}
	for _, t := range []*draw.TextStyle{&p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle, &p.Title.TextStyle} {
		t.Font.Typeface, t.Font.Variant = sans.Typeface, sans.Variant
		t.Font.Size = vg.Points(9)
		t.Color = inkColor
	}
	p.Title.TextStyle.Font.Size = vg.Points(11)
	p.Title.Padding = vg.Points(4)
	p.X.LineStyle.Color, p.Y.LineStyle.Color = gridColor, gridColor
	p.X.Tick.LineStyle.Color, p.Y.Tick.LineStyle.Color = gridColor, gridColor
	p.X.Tick.Marker, p.Y.Tick.Marker = shortTicks{}, shortTicks{}
	p.Legend.Padding = vg.Points(2)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = gridColor, gridColor
	grid.Horizontal.Width, grid.Vertical.Width = vg.Points(.5), 0
	p.Add(grid)
	return p
}

// shortTicks are gonum's default ticks with labels of at most three digits.
type shortTicks struct{}

func (shortTicks) Ticks(lo, hi float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(lo, hi)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = strconv.FormatFloat(t.Value, 'g', 3, 64)
		}
	}
	return ticks
}

// svg draws p as an <svg> element to stand inside a page.
func svg(p *plot.Plot, width, height vg.Length) (template.HTML, error) {
	canvas := vgsvg.New(width, height)
	p.Draw(draw.New(canvas))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", err
	}
	text := b.Bytes()
	// The XML declaration and the document type may not stand inside HTML.
	if i := bytes.Index(text, []byte("<svg")); i >= 0 {
		text = text[i:]
	}
	return template.HTML(themed().Replace(string(text))), nil
}

// Band is a one-dimensional regression with its uncertainties, as in figure 1
// of Tagasovska & Lopez-Paz (2019). All slices of the curve have one length
// and X ascends.
type Band struct {
	Title                    string
	X, Median, Lower, Upper  []float64
	Epistemic                []float64 // p-value per X; low is suspicious
	Alpha                    float64   // rows with a p-value up to Alpha are flagged
	TrainX, TrainY           []float64
	Level, Coverage, MeanGap float64 // nominal level, coverage and mean width on test rows
}

func bandPlot(b Band) (template.HTML, error) {
	p := newPlot("", "x", "y")
	p.Legend.Top = true
	p.Legend.XOffs, p.Legend.YOffs = -vg.Points(6), -vg.Points(6)
	lowest, highest := math.Inf(1), math.Inf(-1)
	for _, y := range b.TrainY {
		lowest, highest = min(lowest, y), max(highest, y)
	}
	for i := range b.X {
		lowest, highest = min(lowest, b.Lower[i]), max(highest, b.Upper[i])
	}
	flagged := true
	for start := 0; start < len(b.X); {
		end := start
		for end < len(b.X) && (b.Epistemic[end] <= b.Alpha) == (b.Epistemic[start] <= b.Alpha) {
			end++
		}
		if b.Epistemic[start] <= b.Alpha {
			left, right := b.X[start], b.X[min(end, len(b.X)-1)]
			area, err := plotter.NewPolygon(plotter.XYs{{X: left, Y: lowest}, {X: right, Y: lowest}, {X: right, Y: highest}, {X: left, Y: highest}})
			if err != nil {
				return "", err
			}
			area.Color, area.LineStyle.Width = withAlpha(outColor, 0x22), 0
			p.Add(area)
			if flagged {
				p.Legend.Add("flagged as out-of-domain", area)
				flagged = false
			}
		}
		start = end
	}
	edge := make(plotter.XYs, 0, 2*len(b.X))
	for i := range b.X {
		edge = append(edge, plotter.XY{X: b.X[i], Y: b.Lower[i]})
	}
	for i := len(b.X) - 1; i >= 0; i-- {
		edge = append(edge, plotter.XY{X: b.X[i], Y: b.Upper[i]})
	}
	area, err := plotter.NewPolygon(edge)
	if err != nil {
		return "", fmt.Errorf("prediction band: %w", err)
	}
	area.Color, area.LineStyle.Width = withAlpha(inColor, 0x44), 0
	p.Add(area)
	p.Legend.Add(fmt.Sprintf("%.0f %% interval", 100*b.Level), area)

	points := make(plotter.XYs, len(b.TrainX))
	for i := range points {
		points[i] = plotter.XY{X: b.TrainX[i], Y: b.TrainY[i]}
	}
	scatter, err := plotter.NewScatter(points)
	if err != nil {
		return "", fmt.Errorf("training rows: %w", err)
	}
	scatter.GlyphStyle = draw.GlyphStyle{Color: withAlpha(inkColor, 0x88), Radius: vg.Points(1), Shape: draw.CircleGlyph{}}
	p.Add(scatter)
	p.Legend.Add("rows fitted on", scatter)

	median := make(plotter.XYs, len(b.X))
	for i := range median {
		median[i] = plotter.XY{X: b.X[i], Y: b.Median[i]}
	}
	line, err := plotter.NewLine(median)
	if err != nil {
		return "", fmt.Errorf("median: %w", err)
	}
	line.Color, line.Width = inColor, vg.Points(1.5)
	p.Add(line)
	p.Legend.Add("median", line)
	p.Y.Min, p.Y.Max = lowest, highest
	return svg(p, 24*vg.Centimeter, 10*vg.Centimeter)
}
