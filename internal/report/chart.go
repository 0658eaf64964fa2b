package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/measure"
	"github.com/attach-uncertainty/attach/ood/compare"
)

// Curves are drawn on a plane of chartWidth×chartHeight with its origin at the top left. The
// band has a plane of twice the width. Colours are in the style of the page, so that they
// follow its theme.
const (
	chartWidth, chartHeight = 460.0, 340.0
	// coloured is the number of the best methods that have a colour of their own.
	coloured = 6
	// curvePoints is the largest number of points of a curve.
	curvePoints = 160
)

// chart is a drawing on one pair of axes.
type chart struct {
	Title, Note    string // above and below it, in a card of its own
	Key            []shapeKey
	Set            string // the out-of-distribution set, if there are several
	XLabel, YLabel string
	X, Y           []tick
	Width, Height  float64
	Dashed         string  // a path: the guarantee, the expectation or chance
	Areas          []shape // below all else
	Bars           []shape // paths of intervals
	Many           bool    // Bars overlap
	Dots           string  // a path of points
	Circles        []circle
	Lines          []line
	Marks          []shape // paths of points, on top
	x, y           span
}

// circle is a point whose area grows with the rows that it stands for.
type circle struct {
	Color   int
	X, Y, R float64
	Faint   bool
	Title   string
}

// span is the range of an axis.
type span struct{ low, high float64 }

// newChart makes a chart with about as many ticks as asked for, or fewer if their labels need
// the room.
func newChart(xLabel, yLabel string, x, y span, width float64, xTicks, yTicks int) chart {
	return chart{
		XLabel: xLabel, YLabel: yLabel, Width: width, Height: chartHeight, x: x, y: y,
		X: labelled(x, width, xTicks), Y: axis(y.low, y.high, chartHeight, yTicks, true),
	}
}

// tick is a labelled place on an axis.
type tick struct {
	At    float64
	Label string
}

// line is the curve of one method.
type line struct {
	Method int // its place in the ranking
	Color  int // 1 to coloured, or 0 for the rest
	Name   string
	Path   string
}

type point struct{ X, Y float64 }

// path draws a line through points. Points beyond the axes are drawn at their ends.
func (c *chart) path(points []point) string {
	var b strings.Builder
	for i, p := range points {
		b.WriteString(map[bool]string{true: "M", false: "L"}[i == 0])
		b.WriteString(short(c.x.share(p.X) * c.Width))
		b.WriteByte(' ')
		b.WriteString(short((1 - c.y.share(p.Y)) * c.Height))
	}
	return b.String()
}

// share is the place of v on the axis, from 0 to 1.
func (s span) share(v float64) float64 { return min(max((v-s.low)/(s.high-s.low), 0), 1) }

// short writes x with one decimal.
func short(x float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0")
}

// axis has about n round ticks from low to high, placed on a length.
func axis(low, high, length float64, n int, flip bool) []tick {
	step := roundStep((high - low) / float64(n))
	write := tickLabels(step, max(math.Abs(low), math.Abs(high)))
	var ticks []tick
	for k := int(math.Ceil(low/step - 1e-9)); float64(k)*step <= high+1e-9*step; k++ {
		v := float64(k) * step
		at := (v - low) / (high - low) * length
		if flip {
			at = length - at
		}
		ticks = append(ticks, tick{at, write(v)})
	}
	return ticks
}

// tickLabels returns the function that writes the ticks of an axis: all of them with an
// exponent or none, and with enough digits to tell each from the next.
func tickLabels(step, largest float64) func(v float64) string {
	last := int(math.Floor(math.Log10(step) + 1e-9))
	if display.Plain(largest) {
		return func(v float64) string { return display.Fixed(v, max(-last, 0)) }
	}
	return func(v float64) string {
		if v == 0 {
			return "0"
		}
		first := int(math.Floor(math.Log10(math.Abs(v)) + 1e-9))
		return display.Scientific(v, first-last+1)
	}
}

// labelled is the axis with at most about n ticks, and so few that their labels do not
// overlap.
func labelled(s span, length float64, n int) []tick {
	const apart = 8
	for ; ; n-- {
		ticks := axis(s.low, s.high, length, n, false)
		fits := true
		for i := range len(ticks) - 1 {
			need := (labelWidth(ticks[i].Label)+labelWidth(ticks[i+1].Label))/2 + apart
			fits = fits && ticks[i+1].At-ticks[i].At >= need
		}
		if fits || n <= 1 {
			return ticks
		}
	}
}

// labelWidth estimates the width of a tick's label with a wide font, in the size that the
// style of the page has for small screens.
func labelWidth(label string) float64 {
	const size = 15
	var wide float64
	for _, r := range label {
		switch r {
		case ',', '.':
			wide += .33
		case '-':
			wide += .37
		default:
			wide += .65
		}
	}
	return size * wide
}

// Margins of the plane: labels of ticks stand gap beside it.
const labelGap, leastLeft, leastRight, top, bottom = 8, 46, 12, 30, 46

// Left is the room that the labels at the left take.
func (c chart) Left() float64 {
	left := float64(leastLeft)
	for _, t := range c.Y {
		left = max(left, labelWidth(t.Label)+labelGap)
	}
	for _, t := range c.X {
		left = max(left, labelWidth(t.Label)/2-t.At)
	}
	return math.Ceil(left)
}

// ViewBox is the plane with the room for its labels.
func (c chart) ViewBox() string {
	right := float64(leastRight)
	for _, t := range c.X {
		right = max(right, t.At+labelWidth(t.Label)/2-c.Width)
	}
	return fmt.Sprintf("%g %d %g %g", -c.Left(), -top, math.Ceil(c.Left()+c.Width+right), top+c.Height+bottom)
}

// upTo is the axis from 0 to a round number that is at least v.
func upTo(v float64) span {
	step := roundStep(v / 4)
	return span{0, step * math.Ceil(v/step-1e-9)}
}

// roundStep is the smallest number of the form 1, 2 or 5 times a power of ten that is at
// least x.
func roundStep(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= x*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// rocCharts draws one chart for each out-of-distribution set.
func rocCharts(r *compare.Report, rows []row) ([]chart, error) {
	sets := []string{""}
	if len(r.OODSets) > 0 {
		sets = each(r.OODSets, func(s compare.Set) string { return s.Name })
	}
	var charts []chart
	for k, name := range sets {
		c := newChart("false-alarm rate", "detection rate", span{0, 1}, span{0, 1}, chartWidth, 5, 5)
		c.Set, c.Dashed = name, c.path([]point{{0, 0}, {1, 1}})
		for _, m := range rows {
			roc, err := measure.ROC(m.Best.TestScores, m.Best.OODScores[k], curvePoints)
			if err != nil {
				return nil, err
			}
			points := each(roc, func(p measure.ROCPoint) point { return point{p.FPR, p.TPR} })
			c.Lines = append(c.Lines, line{Method: m.Method, Color: m.Color, Name: m.Name, Path: c.path(points)})
		}
		c.order()
		if len(c.Lines) > 0 {
			charts = append(charts, c)
		}
	}
	return charts, nil
}

// riskChart draws risk against coverage. It returns nil if the errors of the model are
// unknown.
func riskChart(r *compare.Report, rows []row) (*chart, error) {
	if r.Wrong == nil || len(rows) == 0 {
		return nil, nil
	}
	curves := make([][]point, len(rows))
	for i, m := range rows {
		curve, err := measure.RiskCoverage(m.Best.TestScores, r.Wrong, curvePoints)
		if err != nil {
			return nil, err
		}
		curves[i] = each(curve, func(p measure.RiskPoint) point { return point{p.Coverage, p.Risk} })
	}
	c := riskPlane("fraction of test rows accepted, lowest score first", *r.ErrorRate, curves)
	for i, m := range rows {
		c.Lines[i].Method, c.Lines[i].Color, c.Lines[i].Name = m.Method, m.Color, m.Name
	}
	c.order()
	return &c, nil
}

// riskPlane draws curves of coverage and risk. The axis reaches beyond all risks, and beyond
// the risk of all rows, high.
func riskPlane(xLabel string, high float64, curves [][]point) chart {
	// The risk of a few rows is mostly chance, and would stretch the axis.
	const least = .05
	for _, curve := range curves {
		for _, p := range curve {
			if p.X >= least {
				high = max(high, p.Y)
			}
		}
	}
	if high == 0 {
		high = .01
	}
	c := newChart(xLabel, "error rate", span{0, 1}, upTo(high), chartWidth, 5, 5)
	for _, curve := range curves {
		shown := slices.DeleteFunc(curve, func(p point) bool { return p.X < least && p.Y > c.y.high })
		c.Lines = append(c.Lines, line{Path: c.path(shown)})
	}
	return c
}

// order draws the best last, on top of the others.
func (c *chart) order() {
	slices.SortStableFunc(c.Lines, func(a, b line) int {
		if (a.Color == 0) != (b.Color == 0) {
			return cmp.Compare(min(a.Color, 1), min(b.Color, 1))
		}
		return cmp.Compare(b.Method, a.Method)
	})
}
