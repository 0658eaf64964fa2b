package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

var (
	inColor   = color.NRGBA{0x2f, 0x6f, 0xde, 0xff}
	outColor  = color.NRGBA{0xe4, 0x57, 0x2e, 0xff}
	inkColor  = color.NRGBA{0x33, 0x3d, 0x4a, 0xff}
	gridColor = color.NRGBA{0xe3, 0xe7, 0xec, 0xff}
)

// curveColor tells up to eight curves apart, also for most colour-blind eyes.
func curveColor(i int) color.Color {
	palette := [...]color.NRGBA{
		{0x2f, 0x6f, 0xde, 0xff}, {0xe4, 0x57, 0x2e, 0xff}, {0x1b, 0x9e, 0x77, 0xff}, {0x8e, 0x5b, 0xd0, 0xff},
		{0xd9, 0x9a, 0x00, 0xff}, {0x17, 0xa2, 0xb8, 0xff}, {0xc2, 0x3b, 0x82, 0xff}, {0x6b, 0x72, 0x80, 0xff},
	}
	return palette[i%len(palette)]
}

func withAlpha(c color.NRGBA, a uint8) color.NRGBA {
	c.A = a
	return c
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
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
	return template.HTML(text), nil
}

// histogram draws the scores of in-domain and out-of-domain rows on shared
// bins, each as a share of its own rows. The outermost half per cent on each
// side is gathered in the first and last bin.
func histogram(title string, in, out []float64) (template.HTML, error) {
	const bins = 40
	all := slices.Concat(in, out)
	slices.Sort(all)
	if len(all) == 0 {
		return "", fmt.Errorf("histogram of %s: there are no scores", title)
	}
	lo, hi := all[len(all)/200], all[len(all)-1-len(all)/200]
	if hi <= lo {
		lo, hi = lo-.5, lo+.5
	}
	p := newPlot(title, "score (higher: more uncertain)", "share of rows")
	for _, set := range []struct {
		scores []float64
		color  color.NRGBA
	}{{in, inColor}, {out, outColor}} {
		if len(set.scores) == 0 {
			continue
		}
		var share [bins]float64
		for _, s := range set.scores {
			i := int(float64(bins) * (s - lo) / (hi - lo))
			share[min(max(i, 0), bins-1)] += 1 / float64(len(set.scores))
		}
		xy := plotter.XYs{{X: lo, Y: 0}}
		for i, v := range share {
			left := lo + (hi-lo)*float64(i)/bins
			right := lo + (hi-lo)*float64(i+1)/bins
			xy = append(xy, plotter.XY{X: left, Y: v}, plotter.XY{X: right, Y: v})
		}
		xy = append(xy, plotter.XY{X: hi, Y: 0})
		area, err := plotter.NewPolygon(xy)
		if err != nil {
			return "", fmt.Errorf("histogram of %s: %w", title, err)
		}
		area.Color = withAlpha(set.color, 0x66)
		area.LineStyle.Color = set.color
		area.LineStyle.Width = vg.Points(1)
		p.Add(area)
	}
	p.X.Min, p.X.Max = lo, hi
	return svg(p, 11*vg.Centimeter, 6.5*vg.Centimeter)
}

// Curve is one receiver operating characteristic: the share of out-of-domain
// rows found against the share of in-domain rows flagged by mistake.
type Curve struct {
	Name     string
	FPR, TPR []float64
}

func rocPlot(curves []Curve) (template.HTML, error) {
	p := newPlot("", "in-domain rows flagged (false positives)", "out-of-domain rows found")
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1
	var tenths plot.ConstantTicks
	for i := 0; i <= 10; i += 2 {
		tenths = append(tenths, plot.Tick{Value: float64(i) / 10, Label: strconv.FormatFloat(float64(i)/10, 'g', -1, 64)})
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = tenths, tenths
	diagonal, err := plotter.NewLine(plotter.XYs{{X: 0, Y: 0}, {X: 1, Y: 1}})
	if err != nil {
		return "", err
	}
	diagonal.Color, diagonal.Dashes = gridColor, []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(diagonal)
	for i, c := range curves {
		xy := make(plotter.XYs, len(c.FPR))
		for j := range xy {
			xy[j] = plotter.XY{X: c.FPR[j], Y: c.TPR[j]}
		}
		line, err := plotter.NewLine(xy)
		if err != nil {
			return "", fmt.Errorf("ROC curve of %s: %w", c.Name, err)
		}
		line.Color, line.Width = curveColor(i), vg.Points(1.5)
		p.Add(line)
		p.Legend.Add(c.Name, line)
	}
	p.Legend.XOffs, p.Legend.YOffs = -vg.Points(6), vg.Points(6)
	return svg(p, 13*vg.Centimeter, 10*vg.Centimeter)
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
