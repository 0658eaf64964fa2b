package pictures

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/reproduce/svg"
)

// plot returns a pair of axes with the given area in a picture.
func plot(p *svg.Picture, left, top, w, h float64, x, y svg.Axis) svg.Plot {
	return svg.Plot{Picture: p, Left: left, Top: top, W: w, H: h, XAxis: x, YAxis: y}
}

// twoUncertainties plots an interval that is wide where targets vary. Regions in which
// inputs are flagged are shaded.
func twoUncertainties(m Measured) *svg.Picture {
	p := svg.New(640, 380, "Two kinds of uncertainty on one regressor",
		"The 90 % interval is narrow on the left and wide on the right, because the targets vary more there. Regions without training data are shaded: their inputs are flagged as unfamiliar.")
	t := m.Toy
	a := plot(p, 46, 46, 578, 258, svg.Axis{Low: -4.5, High: 4.5, Ticks: svg.Ticks(-4, -3, -2, -1, 0, 1, 2, 3, 4), Label: "input x"},
		svg.Axis{Low: -2.5, High: 3, Ticks: svg.Ticks(-2, -1, 0, 1, 2, 3), Label: "target y"})
	for i := 0; i < len(t.At); i++ {
		if t.PValue[i] > m.Alpha {
			continue
		}
		from := i
		for i+1 < len(t.At) && t.PValue[i+1] <= m.Alpha {
			i++
		}
		halfStep := (t.At[1] - t.At[0]) / 2
		x := a.X(t.At[from] - halfStep)
		p.Rect(x, a.Top, a.X(t.At[i]+halfStep)-x, a.H, 0, "w-orange")
	}
	a.Axes()
	a.Band(t.At, t.Lower, t.Upper, "w-blue")
	a.Dots(t.X, t.Y, 1.6, "ink", ".55")
	a.Curve(t.At, t.Median, "s-blue wide")
	p.Text(a.X(.25), a.Top+22, "middle bold orange", "no training data")
	p.Text(a.X(-3.75), a.Top+22, "middle bold orange", "no data")
	p.Text(a.X(3.75), a.Top+22, "middle bold orange", "no data")
	p.Text(a.X(-1.9), a.Y(1.05), "middle blue", "90 % interval")
	p.Line(a.X(-1.9), a.Y(.95), a.X(-1.75), a.Y(-.65), "s-blue")
	p.Rect(46, 354, 16, 12, 2, "w-orange")
	p.Text(68, 365, "small soft", "shaded: flagged as unfamiliar (epistemic)")
	p.Rect(346, 354, 16, 12, 2, "w-blue")
	p.Text(368, 365, "small soft", "width of the band: noise (aleatoric)")
	return p
}

// calibrationLuck plots how the false-alarm rate varies between random calibration sets.
func calibrationLuck(m Measured) *svg.Picture {
	p := svg.New(640, 350, "The luck of the calibration set",
		"Each dot is one random calibration set. With 20 rows the real false-alarm rate lies anywhere from 0 to 18 %; with 1,000 rows it lies between 3 and 7.5 %.")
	high := .2
	a := plot(p, 52, 46, 572, 236, svg.Axis{Low: -.5, High: float64(len(m.Luck)) - .5, Label: "number of calibration rows (120 random draws each)"},
		svg.Axis{High: high, Ticks: []svg.Tick{{At: 0, Label: "0 %"}, {At: .05, Label: "5 %"}, {At: .1, Label: "10 %"}, {At: .15, Label: "15 %"}, {At: .2, Label: "20 %"}}, Label: "real false-alarm rate at alpha 0.05"})
	for i, l := range m.Luck {
		a.XAxis.Ticks = append(a.XAxis.Ticks, svg.Tick{At: float64(i), Label: thousands(l.Rows)})
	}
	a.Axes()
	for i, l := range m.Luck {
		rates := slices.Sorted(slices.Values(l.Rates))
		var x []float64
		for k := range rates {
			x = append(x, float64(i)+.32*(math.Mod(float64(k)*.618034, 1)-.5))
		}
		a.Dots(x, rates, 2.4, "blue", ".5")
		low, top := rates[len(rates)/20], rates[len(rates)-1-len(rates)/20]
		p.Line(a.X(float64(i)+.28), a.Y(low), a.X(float64(i)+.28), a.Y(top), "s-ink wide")
	}
	a.Level(m.Alpha, "s-orange wide")
	p.Text(624, 36, "small bold orange end", "dashed: asked, 5 %")
	p.Line(52, 336, 72, 336, "s-ink wide")
	p.Text(80, 340, "small soft", "nine of ten draws")
	return p
}

// driftEvidence plots the evidence of the drift monitor for three streams.
func driftEvidence(m Measured) *svg.Picture {
	p := svg.New(640, 360, "Evidence for drift over three streams",
		"Half way, letters begin to appear among the digits. With 20 % letters the monitor alarms after 53 rows, with 5 % after 653 rows. Without letters the evidence stays below 1.")
	a := plot(p, 78, 46, 432, 250, svg.Axis{High: 2000, Ticks: []svg.Tick{{At: 0, Label: "0"}, {At: 500, Label: "500"}, {At: 1000, Label: "1,000"}, {At: 1500, Label: "1,500"}, {At: 2000, Label: "2,000"}}, Label: "rows of the stream"},
		svg.Axis{Low: .1, High: 1e6, Log: true, Ticks: []svg.Tick{{At: .1, Label: "0.1"}, {At: 1, Label: "1"}, {At: 10, Label: "10"}, {At: 100, Label: "100"}, {At: 1e3, Label: "1,000"}, {At: 1e4, Label: "10,000"}, {At: 1e6, Label: "1 million"}}, Label: "evidence (log scale)"})
	a.Axes()
	p.Rect(a.X(1000), a.Top, a.X(2000)-a.X(1000), a.H, 0, "w-orange")
	p.Text(a.X(1000)-6, a.Top+16, "small orange end", "letters begin")
	a.Level(100, "s-ink")
	p.Text(a.X(40), a.Y(100)-6, "small", "alarm at 100 (delta 0.01)")
	colors := []string{"blue", "purple", "orange"}
	for i, d := range m.Drift {
		var x, y []float64
		for k, e := range d.Evidence {
			x = append(x, float64(10*(k+1)))
			y = append(y, e)
			if e > 1e6 {
				break
			}
		}
		a.Curve(x, y, "wide s-"+colors[i])
		if d.Alarm > 0 {
			p.Circle(a.X(float64(d.Alarm)), a.Y(100), 5, colors[i])
		}
	}
	p.Lines(520, a.Y(2e5), "small orange", "20 % letters:", fmt.Sprintf("alarm after %d", m.Drift[2].Alarm-1000), "rows")
	p.Lines(520, a.Y(4e3), "small purple", "5 % letters:", fmt.Sprintf("alarm after %d", m.Drift[1].Alarm-1000), "rows")
	p.Lines(520, a.Y(.6), "small blue", "no letters:", "no alarm")
	return p
}

// auditFunnel shows how an audit narrows down the inputs that need a closer look.
func auditFunnel(m Measured) *svg.Picture {
	p := svg.New(640, 300, "The funnel of an audit",
		"3,500 inputs are scored, 1,443 are flagged, 1,261 are discoveries. Most of the flags and nearly all discoveries are letters.")
	const full, left = 320., 190.
	rows := []struct {
		title, note     string
		digits, letters int
	}{
		{"scored", "all inputs", m.Digits, m.Letters},
		{"flagged", "alpha 0.05 for each input", m.Audit.FlaggedDigits, m.Audit.Flagged - m.Audit.FlaggedDigits},
		{"discoveries", "false discovery rate 0.1", m.Audit.DiscoveredDigits, m.Audit.Discoveries - m.Audit.DiscoveredDigits},
	}
	for i, r := range rows {
		y := 26 + 64*float64(i)
		p.Text(left-14, y+17, "bold end", r.title)
		p.Text(left-14, y+34, "small soft end", r.note)
		letters, digits := full*float64(r.letters)/3500, full*float64(r.digits)/3500
		p.Rect(left, y, letters, 36, 3, "orange")
		p.Rect(left+letters+2, y, max(digits-2, 2), 36, 3, "blue")
		p.Text(left+letters+digits+10, y+24, "bold", thousands(r.letters+r.digits))
	}
	p.Rect(left, 219, 12, 12, 2, "orange")
	p.Text(left+18, 230, "small soft", "letters")
	p.Rect(left+90, 219, 12, 12, 2, "blue")
	p.Text(left+108, 230, "small soft", "digits (here: the mistakes)")
	p.Line(16, 246, 624, 246, "s-line")
	p.Text(16, 276, "", fmt.Sprintf("At least %s inputs do not belong, with 95 %% confidence.", thousands(m.Audit.Outliers)))
	return p
}

// whichCommand draws a flowchart from the user's goal to a command.
func whichCommand() *svg.Picture {
	p := svg.New(640, 424, "Which command?",
		"First attach inspect, then attach fit. Then choose by what you want: predict for rows, evaluate for labelled rows, audit for a large set, serve for a service, export for an ONNX file, compare to choose a detector.")
	box(p, 170, 16, 300, 52, "faint", "attach inspect", "does my model work?")
	p.Arrow("soft", 320, 68, 320, 86)
	box(p, 170, 88, 300, 52, "green", "attach fit", "once for each model: writes a .attach file")
	p.Line(320, 140, 320, 158, "s-soft")
	p.Text(332, 158, "small soft", "what do you want?")
	p.Line(32, 172, 32, 396, "s-soft")
	p.Path("M320 158V172H32", "s s-soft")
	for i, c := range [][2]string{
		{"flags, intervals, sets for some rows", "attach predict"},
		{"a test of the guarantees, a gate in CI", "attach evaluate"},
		{"what does not belong in a large set", "attach audit"},
		{"an HTTP or gRPC service, drift alarms", "attach serve"},
		{"one ONNX file for any runtime", "attach export"},
		{"another detector than the default", "attach compare"},
	} {
		y := 192 + 38*float64(i)
		p.Arrow("soft", 32, y+14, 60, y+14)
		p.Text(68, y+19, "", c[0])
		p.Rect(420, y, 204, 30, 7, "w-blue s-blue")
		p.Text(522, y+20, "middle mono bold", c[1])
		p.Line(372, y+14, 414, y+14, "s-line dash")
	}
	return p
}

// These results are in the picture of reasons. docs/concepts/reasons.md shows how they come
// about, and a test finds them there.
const (
	reasonCell  = "voltage = 12286 (fit rows: 9.354 to 12.54)"
	reasonShift = "49.5 % of the values are at most 12.52, but 99.7 % in the fit rows"
	reasonScore = "score: 79 % age, 21 % voltage"
)

// reasons draws rows of a table and three questions: about a cell, a column and a row.
func reasons() *svg.Picture {
	const cell = "12286"
	p := svg.New(640, 390, "Three questions about unusual rows",
		"Is a cell unusual? The voltage of the first row is far outside the range of the fit rows. Has a column changed? Half of the voltages are larger than nearly all fit rows. What raised the score? In the second row no cell is unusual, but the age and the voltage do not belong together.")
	badge := func(x, y float64, color, number string) {
		p.Circle(x, y, 11, color)
		p.Text(x, y+5, "middle bold paper", number)
	}
	right := []float64{250, 340, 430, 540} // of the columns
	for k, name := range []string{"temperature", "age", "load", "voltage"} {
		p.Text(right[k], 36, "small soft end", name)
	}
	p.Line(120, 46, 560, 46, "s-line")
	p.Rect(466, 51, 80, 26, 4, "w-orange s-orange")
	p.Rect(126, 81, 424, 26, 4, "w-blue s-blue")
	p.Rect(460, 18, 96, 116, 6, "s s-purple dash")
	for i, row := range [][]string{{"22", "368", "0.4", cell}, {"19.7", "2300", "0.4", "12.3"}, {"…", "…", "…", "…"}} {
		for k, value := range row {
			p.Text(right[k], 69+30*float64(i), "mono end", value)
		}
	}
	badge(449, 64, "orange", "1")
	badge(556, 18, "purple", "2")
	badge(126, 94, "blue", "3")

	for k, q := range []struct{ color, title, when string }{
		{"orange", "Is a cell unusual?", "before the model runs"}, {"purple", "Has a column changed?", "before the model runs"}, {"blue", "What raised the score?", "after the model"},
	} {
		x := 16 + 206*float64(k)
		p.Rect(x, 156, 196, 218, 7, "ground s-line")
		badge(x+6, 160, q.color, strconv.Itoa(k+1))
		p.Text(x+18, 187, "small bold", q.title)
		p.Text(x+18, 206, "small soft", q.when)
	}
	// The range of the fit rows, and the cell.
	p.Line(34, 274, 194, 274, "s-faint")
	p.Line(40, 274, 84, 274, "heavy s-soft")
	p.Circle(186, 274, 5, "orange")
	p.Text(62, 262, "middle small soft", "fit rows")
	p.Text(194, 262, "end small orange", cell)
	p.Lines(34, 308, "small", wrap(reasonCell, 25)...)
	// Two histograms.
	for i, heights := range [][]float64{{8, 26, 34, 16}, {5, 13, 17, 8}, {3, 11, 18, 10}} {
		for j, h := range heights {
			class := "w-purple s-purple"
			if i == 0 {
				class = "w-soft s-faint"
			}
			p.Rect(244+78*float64(max(0, i-1))+14*float64(j), 274-h, 14, h, 0, class)
		}
	}
	p.Line(236, 274, 404, 274, "s-faint")
	p.Text(240, 234, "small soft", "fit rows")
	p.Text(400, 248, "end small purple", "new rows")
	p.Lines(240, 308, "small", wrap(reasonShift, 25)...)
	// Shares of the score.
	var age, voltage float64
	fmt.Sscanf(reasonScore, "score: %g %% age, %g %% voltage", &age, &voltage)
	for i, share := range []float64{age, voltage} {
		y := 236 + 24*float64(i)
		p.Text(446, y+13, "small", []string{"age", "voltage"}[i])
		p.Rect(502, y, 0.8*share, 17, 2, "blue")
		p.Text(506+0.8*share, y+13, "small", fmt.Sprintf("%g %%", share))
	}
	p.Lines(446, 308, "small", "each is normal, but not", "together: an old battery", "with a new one's voltage", "(a share is no cause)")
	return p
}

// wrap breaks a text into lines of about width characters.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

// pValues plots histograms of the p-values of digits and of letters.
func pValues(m Measured) *svg.Picture {
	p := svg.New(640, 322, "p-values of digits and of letters",
		"The p-values of 2,000 digits are spread evenly from 0 to 1. The p-values of 1,500 letters pile up at 0: 89 % of them are at most 0.05.")
	for k, side := range []struct {
		counts       []int
		n            int
		color, title string
	}{
		{m.DigitPValues, m.Digits, "blue", "digits (in-distribution): flat"},
		{m.LetterPValues, m.Letters, "orange", "letters (OOD): piled up at 0"},
	} {
		left := 52 + 312*float64(k)
		y := svg.Axis{High: 1, Ticks: []svg.Tick{{At: 0, Label: "0"}, {At: .25, Label: "25 %"}, {At: .5, Label: "50 %"}, {At: .75, Label: "75 %"}, {At: 1, Label: "100 %"}}}
		a := plot(p, left, 56, 260, 184, svg.Axis{High: 1, Ticks: svg.Ticks(0, .25, .5, .75, 1), Label: "p-value, in bins of 0.05"}, y)
		a.Axes()
		p.Text(left, 34, "bold "+side.color, side.title)
		for i, c := range side.counts {
			v := float64(c) / float64(side.n)
			x := a.X(float64(i) / 20)
			class := side.color
			if i > 0 {
				class = "w-" + side.color
			}
			p.Rect(x+.5, a.Y(v), 12, a.Top+a.H-a.Y(v), 0, class)
		}
		p.Text(a.X(.09), a.Y(float64(side.counts[0])/float64(side.n))+14-26*float64(1-k), "small bold "+side.color,
			strconv.FormatFloat(100*float64(side.counts[0])/float64(side.n), 'f', 1, 64)+" % flagged")
	}
	p.Text(52, 306, "small soft", "full colour: p at most 0.05, so flagged")
	return p
}

// intervalsAndSets plots an easy and a hard input of a classifier and of a regressor.
func intervalsAndSets(m Measured) *svg.Picture {
	p := svg.New(640, 420, "Prediction sets and intervals: an easy and a hard input",
		"The set of an easy digit holds one class, that of a hard digit two. The interval is narrow where targets vary little, and wide where they vary much.")
	for k, e := range []Example{m.Easy, m.Hard} {
		left := 16 + 312*float64(k)
		p.Text(left, 32, "bold", []string{"easy digit", "hard digit"}[k])
		p.Pixels(left, 44, 84, digitSize, e.Pixels)
		set := ""
		for i, c := range e.Set {
			if i > 0 {
				set += ", "
			}
			set += strconv.Itoa(c)
		}
		p.Text(left, 154, "small soft", fmt.Sprintf("set at level %g", m.SetLevel))
		p.Text(left, 178, "big blue", "{"+set+"}")
		top := slices.Max(e.Logits)
		sum := 0.
		for _, v := range e.Logits {
			sum += math.Exp(v - top)
		}
		a := plot(p, left+122, 44, 166, 116, svg.Axis{Low: -.5, High: 9.5, Ticks: svg.Ticks(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), Label: "class"}, svg.Axis{High: 1})
		a.Axes()
		p.Text(left+122, 38, "small soft", "probability")
		for c, v := range e.Logits {
			class := "faint"
			if slices.Contains(e.Set, c) {
				class = "blue"
			}
			y := a.Y(math.Exp(v-top) / sum)
			p.Rect(a.X(float64(c))-6, y, 12, a.Top+a.H-y, 1, class)
		}
	}
	p.Line(16, 214, 624, 214, "s-line")
	p.Text(16, 242, "bold", "easy and hard input of a regressor")
	t := m.Toy
	a := plot(p, 52, 258, 400, 112, svg.Axis{Low: -3, High: 3, Ticks: svg.Ticks(-3, -2, -1, 0, 1, 2, 3), Label: "input x"}, svg.Axis{Low: -2, High: 3, Ticks: svg.Ticks(-2, 0, 2)})
	a.Axes()
	var x, y []float64
	for i := range t.X {
		x, y = append(x, t.X[i]), append(y, t.Y[i])
	}
	a.Dots(x, y, 1.5, "soft", ".5")
	for k, input := range []float64{-2.5, 1.5} {
		i, _ := slices.BinarySearch(t.At, input)
		p.Line(a.X(input), a.Y(t.Lower[i]), a.X(input), a.Y(t.Upper[i]), "heavy s-blue")
		p.Circle(a.X(input), a.Y(t.Median[i]), 3, "paper s-blue")
		p.Text(464, 286+58*float64(k), "small soft", fmt.Sprintf("90 %% interval at x = %g", input))
		p.Text(464, 308+58*float64(k), "bold blue", fmt.Sprintf("%.2f to %.2f", t.Lower[i], t.Upper[i]))
	}
	return p
}

// evaluation draws, for each guarantee, its verdict, the measured rate, the 95 % interval
// of this rate and the rate asked for.
func evaluation(m Measured) *svg.Picture {
	p := svg.New(640, 316, "Are the guarantees met?",
		"Four guarantees tested on held-out rows, each with the rate measured, its 95 % interval and the rate asked for.")
	p.Text(16, 34, "big", "Are the guarantees met?")
	for i, v := range m.Verdicts {
		y := 56 + 62*float64(i)
		fraction := float64(v.Hits) / float64(v.Rows)
		verdict, color := "met", "green"
		if v.Asked == m.SetLevel {
			// With 1,000 calibration rows, a test of the level 0.99 has too little power.
			verdict, color = "too few rows", "ochre"
		}
		p.Rect(16, y, 608, 54, 6, "ground")
		p.Rect(16, y, 5, 54, 2, color)
		p.Text(34, y+23, "bold "+color, verdict)
		p.Text(34, y+42, "small soft", v.Name)
		axis := svg.Axis{High: .12}
		if v.Asked > .5 {
			axis = svg.Axis{Low: .86, High: 1.002}
		}
		a := plot(p, 240, y+8, 220, 38, axis, svg.Axis{High: 1})
		p.Line(a.Left, y+27, a.Left+a.W, y+27, "s-line")
		p.Line(a.X(v.Low), y+27, a.X(v.High), y+27, "heavy s-blue")
		p.Circle(a.X(fraction), y+27, 6, "blue")
		p.Line(a.X(v.Asked), y+8, a.X(v.Asked), y+46, "s-orange wide")
		p.Text(612, y+23, "bold end", percent(fraction))
		p.Text(612, y+42, "small soft end", fmt.Sprintf("asked: %g %%", 100*v.Asked))
	}
	return p
}
