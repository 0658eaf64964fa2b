// Package svg draws the pictures of the documentation: one style, in which each
// shape has a class and the class has a colour for light and one for dark pages.
//
// A picture brings its own background, so that it stays readable if a page and the
// reader's system disagree about which of the two it is.
package svg

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Picture is an SVG under construction. Lengths are in its own units; text is 15
// of them high, so that a picture 640 wide is readable on a telephone.
type Picture struct {
	Width, Height      float64
	title, description string
	body               strings.Builder
}

// New returns an empty picture. Title and description are for readers who cannot
// see it.
func New(width, height float64, title, description string) *Picture {
	return &Picture{Width: width, Height: height, title: title, description: description}
}

// paint is a colour on light and on dark pages.
type paint struct{ light, dark string }

// paints are the colours by name: ink for text, soft for what explains it, line
// and faint for what guides the eye; blue for what is in-distribution, orange for
// what is not, and the others for further series.
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

// style is the style sheet. A class is a paint, which fills text and dots, with a
// prefix for other uses: "s-" strokes a line, "w-" washes an area.
func style() string {
	var b strings.Builder
	b.WriteString("text{font:15px system-ui,-apple-system,'Segoe UI','Liberation Sans','DejaVu Sans',sans-serif;fill:#1c2430}\n" +
		".big{font-size:19px;font-weight:650}.bold{font-weight:650}.small{font-size:13px}.mono{font-family:ui-monospace,SFMono-Regular,Menlo,'DejaVu Sans Mono',monospace;font-size:14px}\n" +
		".middle{text-anchor:middle}.end{text-anchor:end}\n" +
		".s{fill:none;stroke-width:1;stroke-linecap:round;stroke-linejoin:round}.thin{stroke-width:1}.wide{stroke-width:2.4}.heavy{stroke-width:5}.dash{stroke-dasharray:5 4}\n")
	rules := func(of func(paint) string) {
		for _, p := range paints {
			c := of(p.paint)
			fmt.Fprintf(&b, ".%[1]s{fill:%[2]s}.s-%[1]s{stroke:%[2]s}.w-%[1]s{fill:%[2]s;fill-opacity:.18}\n", p.name, c)
		}
	}
	rules(func(p paint) string { return p.light })
	b.WriteString("@media (prefers-color-scheme:dark){text{fill:#e3e8ee}\n")
	rules(func(p paint) string { return p.dark })
	b.WriteString("}\n")
	return b.String()
}

// used leaves out the rules of paints that the picture does not use.
func (p *Picture) style() string {
	body := p.body.String()
	var kept []string
	for _, line := range strings.Split(style(), "\n") {
		name, _, isRule := strings.Cut(strings.TrimPrefix(line, "."), "{fill:")
		if isRule && strings.HasPrefix(line, ".") && name != "paper" && name != "line" && !strings.Contains(body, name) {
			continue
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "\n")
}

// String returns the file.
func (p *Picture) String() string {
	// The picture is shown a quarter larger where there is room.
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]s %[2]s" width="%[3]s" height="%[4]s" role="img" aria-labelledby="t d">
<title id="t">%[5]s</title>
<desc id="d">%[6]s</desc>
<style>%[7]s</style>
<rect class="paper s-line" x=".5" y=".5" width="%[8]s" height="%[9]s" rx="8"/>
%[10]s</svg>
`, num(p.Width), num(p.Height), num(p.Width*1.25), num(p.Height*1.25), escape(p.title), escape(p.description), p.style(), num(p.Width-1), num(p.Height-1), p.body.String())
}

// WriteFile writes the file.
func (p *Picture) WriteFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(p.String()), 0o644)
}

// num is x to a tenth.
func num(x float64) string {
	s := strconv.FormatFloat(x, 'f', 1, 64)
	if s = strings.TrimSuffix(s, ".0"); s == "-0" {
		return "0"
	}
	return s
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}

// Raw adds elements as they are.
func (p *Picture) Raw(format string, args ...any) { fmt.Fprintf(&p.body, format+"\n", args...) }

// Text adds a line of text with its baseline at y. It begins at x, or has its
// middle or its end there if the class says so.
func (p *Picture) Text(x, y float64, class, text string) {
	if class != "" {
		class = ` class="` + class + `"`
	}
	p.Raw(`<text x="%s" y="%s"%s>%s</text>`, num(x), num(y), class, escape(text))
}

// Lines adds lines of text, the first with its baseline at y.
func (p *Picture) Lines(x, y float64, class string, lines ...string) {
	step := 19.
	if strings.Contains(class, "small") {
		step = 17
	}
	for i, line := range lines {
		p.Text(x, y+step*float64(i), class, line)
	}
}

// Rotated adds text that reads upwards.
func (p *Picture) Rotated(x, y float64, class, text string) {
	p.Raw(`<text transform="translate(%s %s) rotate(-90)" class="%s">%s</text>`, num(x), num(y), class, escape(text))
}

// Rect adds a rectangle with rounded corners.
func (p *Picture) Rect(x, y, width, height, radius float64, class string) {
	round := ""
	if radius > 0 {
		round = fmt.Sprintf(` rx="%s"`, num(radius))
	}
	p.Raw(`<rect class="%s" x="%s" y="%s" width="%s" height="%s"%s/>`, class, num(x), num(y), num(max(width, 0)), num(max(height, 0)), round)
}

// Circle adds a disc, or a ring if the class strokes.
func (p *Picture) Circle(x, y, r float64, class string) {
	p.Raw(`<circle class="%s" cx="%s" cy="%s" r="%s"/>`, class, num(x), num(y), num(r))
}

// Line adds a straight line.
func (p *Picture) Line(x1, y1, x2, y2 float64, class string) {
	p.Raw(`<path class="s %s" d="M%s %sL%s %s"/>`, class, num(x1), num(y1), num(x2), num(y2))
}

// Path adds a path by its data.
func (p *Picture) Path(d, class string) { p.Raw(`<path class="%s" d="%s"/>`, class, d) }

// Arrow adds a line through points with a head at its end.
func (p *Picture) Arrow(class string, at ...float64) {
	n := len(at)
	x, y := at[n-2], at[n-1]
	dx, dy := x-at[n-4], y-at[n-3]
	length := math.Hypot(dx, dy)
	dx, dy = dx/length, dy/length
	p.Path(path(pairs(at)), "s s-"+class)
	p.Path(fmt.Sprintf("M%s %sL%s %sL%s %sZ", num(x), num(y), num(x-8*dx+4*dy), num(y-8*dy-4*dx), num(x-8*dx-4*dy), num(y-8*dy+4*dx)), class)
}

func pairs(at []float64) (points [][2]float64) {
	for i := 0; i+1 < len(at); i += 2 {
		points = append(points, [2]float64{at[i], at[i+1]})
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
		b.WriteString(num(p[0]) + " " + num(p[1]))
	}
	return b.String()
}

// Pixels adds a grey image of size×size bytes, white on black as they are, side
// long. Runs of one level in a row are one rectangle.
func (p *Picture) Pixels(x, y, side float64, size int, grey []byte) {
	p.Raw(`<g transform="translate(%s %s) scale(%s)" shape-rendering="crispEdges"><rect width="%d" height="%d" fill="#101010"/>`,
		num(x), num(y), strconv.FormatFloat(side/float64(size), 'f', 4, 64), size, size)
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
