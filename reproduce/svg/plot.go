package svg

import (
	"math"
	"strconv"
)

// Tick is a labelled position on an axis.
type Tick struct {
	At    float64
	Label string
}

// Ticks labels each value with its shortest decimal form.
func Ticks(values ...float64) (ticks []Tick) {
	for _, v := range values {
		ticks = append(ticks, Tick{v, strconv.FormatFloat(v, 'f', -1, 64)})
	}
	return ticks
}

// Axis describes the range, the ticks and the label of an axis. If Log is set, the range
// must be positive.
type Axis struct {
	Low, High float64
	Log       bool
	Ticks     []Tick
	Label     string
}

// position returns the position of v along the axis, from 0 to 1. Values outside the range
// are clipped.
func (a Axis) position(v float64) float64 {
	low, high := a.Low, a.High
	if a.Log {
		low, high, v = math.Log(low), math.Log(high), math.Log(max(v, 1e-300))
	}
	return min(max((v-low)/(high-low), 0), 1)
}

// Plot is a pair of axes in a picture. Left, Top, W and H give its area without the labels.
type Plot struct {
	*Picture
	Left, Top, W, H float64
	XAxis, YAxis    Axis
}

// X returns the horizontal coordinate of v.
func (p Plot) X(v float64) float64 { return p.Left + p.XAxis.position(v)*p.W }

// Y returns the vertical coordinate of v, measured from the top.
func (p Plot) Y(v float64) float64 { return p.Top + (1-p.YAxis.position(v))*p.H }

// Axes draws the tick labels and the axis labels, a horizontal line at each y tick, and the
// x axis with its tick marks. The y label is above the plot, and the x label is below.
func (p Plot) Axes() {
	for _, t := range p.YAxis.Ticks {
		y := p.Y(t.At)
		p.Line(p.Left, y, p.Left+p.W, y, "s-line")
		p.Text(p.Left-7, y+4.5, "small soft end", t.Label)
	}
	for _, t := range p.XAxis.Ticks {
		x := p.X(t.At)
		p.Line(x, p.Top+p.H, x, p.Top+p.H+4, "s-faint")
		p.Text(x, p.Top+p.H+18, "small soft middle", t.Label)
	}
	p.Line(p.Left, p.Top+p.H, p.Left+p.W, p.Top+p.H, "s-faint")
	if p.YAxis.Label != "" {
		p.Text(p.Left, p.Top-10, "small soft", p.YAxis.Label)
	}
	if p.XAxis.Label != "" {
		p.Text(p.Left+p.W/2, p.Top+p.H+36, "small soft middle", p.XAxis.Label)
	}
}

// Curve draws a line through points. A y of NaN interrupts the line.
func (p Plot) Curve(x, y []float64, class string) {
	var run [][2]float64
	flush := func() {
		if len(run) > 1 {
			p.Path(path(run), "s "+class)
		}
		run = nil
	}
	for i := range x {
		if math.IsNaN(y[i]) {
			flush()
			continue
		}
		run = append(run, [2]float64{p.X(x[i]), p.Y(y[i])})
	}
	flush()
}

// Band fills the area between two curves.
func (p Plot) Band(x, low, high []float64, class string) {
	var edge [][2]float64
	for i := range x {
		edge = append(edge, [2]float64{p.X(x[i]), p.Y(high[i])})
	}
	for i := len(x) - 1; i >= 0; i-- {
		edge = append(edge, [2]float64{p.X(x[i]), p.Y(low[i])})
	}
	p.Path(path(edge)+"Z", class)
}

// Dots draws a disc at each point, grouped in one element.
func (p Plot) Dots(x, y []float64, r float64, class, opacity string) {
	p.Raw(`<g class="%s" fill-opacity="%s">`, class, opacity)
	for i := range x {
		p.Raw(`<circle cx="%s" cy="%s" r="%s"/>`, formatNumber(p.X(x[i])), formatNumber(p.Y(y[i])), formatNumber(r))
	}
	p.Raw(`</g>`)
}

// Level draws a dashed horizontal line at y.
func (p Plot) Level(y float64, class string) {
	p.Line(p.Left, p.Y(y), p.Left+p.W, p.Y(y), "dash "+class)
}
