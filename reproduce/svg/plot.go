package svg

import (
	"math"
	"strconv"
)

// Tick is a labelled place on an axis.
type Tick struct {
	At    float64
	Label string
}

// Ticks labels each value as it is.
func Ticks(values ...float64) (ticks []Tick) {
	for _, v := range values {
		ticks = append(ticks, Tick{v, strconv.FormatFloat(v, 'f', -1, 64)})
	}
	return ticks
}

// Axis is what an axis shows. If Log, its values are positive.
type Axis struct {
	Low, High float64
	Log       bool
	Ticks     []Tick
	Label     string
}

// share is how far along the axis v lies; values beyond an end lie at it.
func (a Axis) share(v float64) float64 {
	low, high := a.Low, a.High
	if a.Log {
		low, high, v = math.Log(low), math.Log(high), math.Log(max(v, 1e-300))
	}
	return min(max((v-low)/(high-low), 0), 1)
}

// Plot is a pair of axes in a picture: its area without the labels.
type Plot struct {
	*Picture
	Left, Top, W, H float64
	XAxis, YAxis    Axis
}

// X is where v lies across.
func (p Plot) X(v float64) float64 { return p.Left + p.XAxis.share(v)*p.W }

// Y is where v lies from the top.
func (p Plot) Y(v float64) float64 { return p.Top + (1-p.YAxis.share(v))*p.H }

// Axes draws lines at the ticks of y, the labels of both and the axes' names: of y
// above the plot, of x below it.
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

// Curve draws a line through values. NaN breaks it.
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

// Dots draws a disc at each pair of values, all of them one element.
func (p Plot) Dots(x, y []float64, r float64, class, opacity string) {
	p.Raw(`<g class="%s" fill-opacity="%s">`, class, opacity)
	for i := range x {
		p.Raw(`<circle cx="%s" cy="%s" r="%s"/>`, num(p.X(x[i])), num(p.Y(y[i])), num(r))
	}
	p.Raw(`</g>`)
}

// Level draws a dashed line at a value of y.
func (p Plot) Level(y float64, class string) {
	p.Line(p.Left, p.Y(y), p.Left+p.W, p.Y(y), "dash "+class)
}
