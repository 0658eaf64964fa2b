// Package svg draws the pictures of the documentation in one style. Each shape has a class,
// and each class has one colour for light pages and one for dark pages.
//
// Each picture draws its own background. It therefore stays readable if the page is dark
// but the reader's system is set to light, or the other way round.
package svg

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Picture is an SVG under construction. Lengths are in its own units. Text is 15 units
// high, so a picture of width 640 is readable on a phone.
type Picture struct {
	Width, Height      float64
	title, description string
	body               strings.Builder
}

// New returns an empty picture. Screen readers read the title and the description aloud.
func New(width, height float64, title, description string) *Picture {
	return &Picture{Width: width, Height: height, title: title, description: description}
}

// paint is a colour for light pages and one for dark pages.
type paint struct{ light, dark string }

// paints lists the colours by name. Text is ink, and explanations are soft. Lines that
// guide the eye are line or faint. In-distribution data are blue, out-of-distribution data
// orange, and further series take the other colours.
var paints = []struct {
	name string
	paint
}{
	{"ink", paint{"#1c2430", "#e3e8ee"}},
	{"soft", paint{"#566270", "#a3aebb"}},
	{"faint", paint{"#a9b2bd", "#5f6b79"}},
	{"line", paint{"#e3e7ec", "#2c343f"}},
	{"paper", paint{"#ffffff", "#161b22"}},
	{"ground", paint{"#f3f5f8", "#1f2630"}},
	{"blue", paint{"#2f66d0", "#7ea6f4"}},
	{"orange", paint{"#d65a1f", "#f5935c"}},
	{"green", paint{"#1f8a62", "#5fc09b"}},
	{"purple", paint{"#7d4fc0", "#b793ee"}},
	{"ochre", paint{"#a87900", "#dcb64a"}},
	{"pink", paint{"#b93563", "#ea7fa2"}},
}

// style returns the style sheet with all paints. The class of a paint fills text and dots.
// The prefix "s-" strokes a line, and "w-" fills an area with a transparent wash.
func style() string {
	var b strings.Builder
	b.WriteString("text{font:15px system-ui,-apple-system,'Segoe UI','Liberation Sans','DejaVu Sans',sans-serif;fill:#1c2430}\n" +
		".big{font-size:19px;font-weight:650}.bold{font-weight:650}.small{font-size:13px}.mono{font-family:ui-monospace,SFMono-Regular,Menlo,'DejaVu Sans Mono',monospace;font-size:14px}\n" +
		".middle{text-anchor:middle}.end{text-anchor:end}\n" +
		".s{fill:none;stroke-width:1;stroke-linecap:round;stroke-linejoin:round}.thin{stroke-width:1}.wide{stroke-width:2.4}.heavy{stroke-width:5}.dash{stroke-dasharray:5 4}\n")
	rules := func(variant func(paint) string) {
		for _, p := range paints {
			c := variant(p.paint)
			fmt.Fprintf(&b, ".%[1]s{fill:%[2]s}.s-%[1]s{stroke:%[2]s}.w-%[1]s{fill:%[2]s;fill-opacity:.18}\n", p.name, c)
		}
	}
	rules(func(p paint) string { return p.light })
	b.WriteString("@media (prefers-color-scheme:dark){text{fill:#e3e8ee}\n")
	rules(func(p paint) string { return p.dark })
	b.WriteString("}\n")
	return b.String()
}

// style returns the style sheet without the rules of paints that the picture does not use.
func (p *Picture) style() string {
	body := p.body.String()
	var used []string
	for _, line := range strings.Split(style(), "\n") {
		name, _, isRule := strings.Cut(strings.TrimPrefix(line, "."), "{fill:")
		if isRule && strings.HasPrefix(line, ".") && name != "paper" && name != "line" && !strings.Contains(body, name) {
			continue
		}
		used = append(used, line)
	}
	return strings.Join(used, "\n")
}

// String returns the SVG file.
func (p *Picture) String() string {
	// The natural size is 25 % larger than the viewBox, for pages with enough room.
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]s %[2]s" width="%[3]s" height="%[4]s" role="img" aria-labelledby="t d">
<title id="t">%[5]s</title>
<desc id="d">%[6]s</desc>
<style>%[7]s</style>
<rect class="paper s-line" x=".5" y=".5" width="%[8]s" height="%[9]s" rx="8"/>
%[10]s</svg>
`, formatNumber(p.Width), formatNumber(p.Height), formatNumber(p.Width*1.25), formatNumber(p.Height*1.25), escape(p.title), escape(p.description), p.style(), formatNumber(p.Width-1), formatNumber(p.Height-1), p.body.String())
}

// WriteFile writes the picture to path and creates missing folders.
func (p *Picture) WriteFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(p.String()), 0o644)
}

// formatNumber formats x with at most one decimal.
func formatNumber(x float64) string {
	s := strconv.FormatFloat(x, 'f', 1, 64)
	if s = strings.TrimSuffix(s, ".0"); s == "-0" {
		return "0"
	}
	return s
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}

// Raw adds a formatted element without escaping it.
func (p *Picture) Raw(format string, args ...any) { fmt.Fprintf(&p.body, format+"\n", args...) }

// Text adds a line of text with its baseline at y. The text starts at x, unless class
// contains middle or end. In these cases, x is its middle or its end.
func (p *Picture) Text(x, y float64, class, text string) {
	if class != "" {
		class = ` class="` + class + `"`
	}
	p.Raw(`<text x="%s" y="%s"%s>%s</text>`, formatNumber(x), formatNumber(y), class, escape(text))
}

// Lines adds lines of text. The first baseline is at y.
func (p *Picture) Lines(x, y float64, class string, lines ...string) {
	step := 19.
	if strings.Contains(class, "small") {
		step = 17
	}
	for i, line := range lines {
		p.Text(x, y+step*float64(i), class, line)
	}
}

// Rotated adds text that reads from bottom to top.
func (p *Picture) Rotated(x, y float64, class, text string) {
	p.Raw(`<text transform="translate(%s %s) rotate(-90)" class="%s">%s</text>`, formatNumber(x), formatNumber(y), class, escape(text))
}

// Rect adds a rectangle with rounded corners.
func (p *Picture) Rect(x, y, width, height, radius float64, class string) {
	rounded := ""
	if radius > 0 {
		rounded = fmt.Sprintf(` rx="%s"`, formatNumber(radius))
	}
	p.Raw(`<rect class="%s" x="%s" y="%s" width="%s" height="%s"%s/>`, class, formatNumber(x), formatNumber(y), formatNumber(max(width, 0)), formatNumber(max(height, 0)), rounded)
}

// Circle adds a disc. If class also names a stroke class, the disc has an outline.
func (p *Picture) Circle(x, y, r float64, class string) {
	p.Raw(`<circle class="%s" cx="%s" cy="%s" r="%s"/>`, class, formatNumber(x), formatNumber(y), formatNumber(r))
}

// Line adds a straight line.
func (p *Picture) Line(x1, y1, x2, y2 float64, class string) {
	p.Raw(`<path class="s %s" d="M%s %sL%s %s"/>`, class, formatNumber(x1), formatNumber(y1), formatNumber(x2), formatNumber(y2))
}

// Path adds a path with the data d.
func (p *Picture) Path(d, class string) { p.Raw(`<path class="%s" d="%s"/>`, class, d) }

// Arrow adds a line through points with an arrowhead at its end. The coordinates alternate
// between x and y.
func (p *Picture) Arrow(class string, coordinates ...float64) {
	n := len(coordinates)
	x, y := coordinates[n-2], coordinates[n-1]
	dx, dy := x-coordinates[n-4], y-coordinates[n-3]
	length := math.Hypot(dx, dy)
	dx, dy = dx/length, dy/length
	p.Path(path(pointsOf(coordinates)), "s s-"+class)
	p.Path(fmt.Sprintf("M%s %sL%s %sL%s %sZ", formatNumber(x), formatNumber(y), formatNumber(x-8*dx+4*dy), formatNumber(y-8*dy-4*dx), formatNumber(x-8*dx-4*dy), formatNumber(y-8*dy+4*dx)), class)
}

func pointsOf(coordinates []float64) (points [][2]float64) {
	for i := 0; i+1 < len(coordinates); i += 2 {
		points = append(points, [2]float64{coordinates[i], coordinates[i+1]})
	}
	return points
}

func path(points [][2]float64) string {
	var b strings.Builder
	for i, p := range points {
		if i == 0 {
			b.WriteByte('M')
		} else {
			b.WriteByte('L')
		}
		b.WriteString(formatNumber(p[0]) + " " + formatNumber(p[1]))
	}
	return b.String()
}

// Pixels draws a grey image of size×size pixels in a square with the given side. In grey,
// 255 is white. Neighbouring pixels of equal level in a row become one rectangle.
func (p *Picture) Pixels(x, y, side float64, size int, grey []byte) {
	p.Raw(`<g transform="translate(%s %s) scale(%s)" shape-rendering="crispEdges"><rect width="%d" height="%d" fill="#101010"/>`,
		formatNumber(x), formatNumber(y), strconv.FormatFloat(side/float64(size), 'f', 4, 64), size, size)
	const levels = 8
	for row := range size {
		for col := 0; col < size; {
			level := (int(grey[row*size+col])*levels + 127) / 255
			end := col + 1
			for end < size && (int(grey[row*size+end])*levels+127)/255 == level {
				end++
			}
			if level > 0 {
				v := 16 + level*(255-16)/levels
				p.Raw(`<path d="M%d %dh%dv1h-%dz" fill="#%02x%02x%02x"/>`, col, row, end-col, end-col, v, v, v)
			}
			col = end
		}
	}
	p.Raw(`</g>`)
}
