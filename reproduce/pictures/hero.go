package pictures

import (
	"fmt"
	"strconv"

	"github.com/attach-uncertainty/attach/reproduce/svg"
)

const digitSize = 24 // width and height of a digit in pixels

// percent formats a fraction as a percentage with one decimal.
func percent(fraction float64) string { return strconv.FormatFloat(100*fraction, 'f', 1, 64) + " %" }

// thousands formats an integer with thousands separators.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// hero draws three digits that pass and three letters that are flagged.
func hero(m Measured) *svg.Picture {
	p := svg.New(640, 316, "A model that reads digits is shown digits and letters",
		"Six inputs with the predicted class, its confidence and the p-value. The model is more than 97 % sure of each. Three digits pass; three letters are flagged.")
	p.Text(104, 32, "bold blue", "digits, as in training")
	p.Text(373, 32, "bold orange", "letters, unseen in training")
	for i, e := range m.Hero {
		x := 104 + 87*float64(i)
		if i >= 3 {
			x += 8
		}
		p.Pixels(x, 46, 76, digitSize, e.Pixels)
		mid := x + 38
		p.Text(mid, 147, "middle", strconv.Itoa(e.Class))
		p.Text(mid, 173, "middle", percent(e.Confidence))
		p.Text(mid, 207, "middle bold", strconv.FormatFloat(e.PValue, 'f', 3, 64))
		if e.Flag {
			p.Rect(x+8, 222, 60, 26, 13, "orange")
			p.Text(mid, 240, "middle bold paper", "flag")
		} else {
			p.Text(mid, 240, "middle green", "✓ pass")
		}
	}
	p.Text(16, 147, "soft small", "prediction")
	p.Text(16, 173, "soft small", "confidence")
	p.Text(16, 207, "soft small", "p-value")
	p.Text(16, 240, "soft small", "attach")
	p.Line(16, 184, 624, 184, "s-line")
	p.Line(16, 264, 624, 264, "s-line")
	p.Text(16, 292, "", fmt.Sprintf("%s of %s letters are flagged, and %.1f %% of the digits (5 %% allowed).",
		thousands(m.FlaggedLetters), thousands(m.Letters), 100*float64(m.FlaggedDigits)/float64(m.Digits)))
	return p
}

// box draws a labelled step of a diagram.
func box(p *svg.Picture, x, y, w, h float64, color, title string, lines ...string) {
	p.Rect(x, y, w, h, 7, "w-"+color+" s-"+color)
	top := y + h/2 - 8.5*float64(len(lines)) + 5
	p.Text(x+w/2, top, "middle bold", title)
	p.Lines(x+w/2, top+18, "middle small soft", lines...)
}

// pipeline draws the steps from a model to the outputs of attach.
func pipeline() *svg.Picture {
	p := svg.New(640, 372, "How attach works",
		"Your model gives features and earlier layers. A detector and an interval model are fitted on training rows, and calibrated on held-out rows. They give flags, intervals and prediction sets, in the command, in Go, in a service or in an ONNX file.")
	box(p, 16, 20, 150, 70, "faint", "your model", "ONNX, unchanged")
	p.Arrow("soft", 166, 55, 206, 55)
	box(p, 206, 20, 178, 70, "blue", "features", "and logits, and up to", "three earlier layers")
	p.Arrow("soft", 384, 55, 424, 55)
	box(p, 424, 20, 200, 70, "blue", "detector", "and interval model", "(regression)")

	p.Text(220, 126, "small soft", "in-distribution rows (--x)")
	p.Arrow("soft", 384, 121, 470, 121, 470, 92)
	p.Arrow("soft", 560, 90, 560, 150)
	p.Text(220, 190, "small soft", "held-out rows (--cal)")
	p.Arrow("soft", 358, 185, 424, 185)
	box(p, 424, 150, 200, 70, "green", "calibration", "what is unusual, and", "how wide is wide enough")

	p.Arrow("soft", 524, 220, 524, 244, 320, 244, 320, 262)
	for i, output := range []string{"p-values and flags", "prediction intervals", "prediction sets"} {
		x := 16 + 206*float64(i)
		p.Rect(x, 264, 196, 38, 7, "w-orange s-orange")
		p.Text(x+98, 288, "middle bold", output)
	}
	for i, destination := range []string{"command line", "Go package", "server", "ONNX file"} {
		x := 16 + 154*float64(i)
		p.Rect(x, 322, 146, 32, 7, "ground s-faint")
		p.Text(x+73, 343, "middle", destination)
	}
	p.Arrow("soft", 320, 302, 320, 321)
	return p
}
