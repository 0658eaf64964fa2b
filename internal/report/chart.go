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

// A curve is drawn on a plane of chartWidth × chartHeight pixels with its origin at the top
// left. The plane of a Band is twice as wide. The colours come from the style sheet, so
// that they follow the theme of the page.
const (
	chartWidth, chartHeight = 460.0, 340.0
	// maxColours is the largest number of methods that have a colour of their own.
	maxColours = 6
	// maxCurvePoints is the maximum number of points of a curve.
	maxCurvePoints = 160
)

// chart is a drawing with one horizontal and one vertical axis.
type chart struct {
	Title, Note    string // Title is above the drawing, and Note below it
	Key            []legendEntry
	Set            string // name of the out-of-distribution set, if there are several
	XLabel, YLabel string
	X, Y           []tick
	Width, Height  float64
	Dashed         string  // path of a reference line, such as the expected count
	Areas          []shape // drawn below everything else
	Bars           []shape // paths of vertical intervals
	Many           bool    // whether Bars overlap, and are therefore drawn faintly
	Dots           string  // path of small points
	Circles        []circle
	Lines          []methodCurve
	Marks          []shape // paths of large points, drawn on top
	Points         []mapPoint
	x, y           span
}

// circle is a point with an area that grows with the number of rows in its bin.
type circle struct {
	Color   int
	X, Y, R float64
	Faint   bool
	Title   string
}

// span holds the ends of an axis.
type span struct{ low, high float64 }

// newChart returns an empty chart with about xTicks and yTicks ticks. The x axis has fewer
// ticks if the labels would overlap.
func newChart(xLabel, yLabel string, x, y span, width float64, xTicks, yTicks int) chart {
	return chart{
		XLabel: xLabel, YLabel: yLabel, Width: width, Height: chartHeight, x: x, y: y,
		X: spacedTicks(x, width, xTicks), Y: newTicks(y.low, y.high, chartHeight, yTicks, true),
	}
}

// tick is a labelled position on an axis.
type tick struct {
	At    float64
	Label string
}

// methodCurve is the curve of one method.
type methodCurve struct {
	Method int // rank of the method, from 0
	Color  int // 1 to maxColours, or 0 for a method without its own colour
	Name   string
	Path   string
}

type point struct{ X, Y float64 }

// svgPath returns the SVG path of a line through the points. Points beyond the ends of an
// axis move to that end.
func (c *chart) svgPath(points []point) string {
	var b strings.Builder
	for i, p := range points {
		b.WriteString(map[bool]string{true: "M", false: "L"}[i == 0])
		b.WriteString(formatCoordinate(c.x.position(p.X) * c.Width))
		b.WriteByte(' ')
		b.WriteString(formatCoordinate((1 - c.y.position(p.Y)) * c.Height))
	}
	return b.String()
}

// position returns the position of v between the ends of the axis, as a fraction from 0 to 1.
func (s span) position(v float64) float64 { return min(max((v-s.low)/(s.high-s.low), 0), 1) }

// formatCoordinate formats x with at most one decimal.
func formatCoordinate(x float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0")
}

// newTicks returns about n ticks at round numbers from low to high. Their positions run from
// 0 to length or, if flip is set, from length to 0.
func newTicks(low, high, length float64, n int, flip bool) []tick {
	step := roundStep((high - low) / float64(n))
	format := tickFormatter(step, max(math.Abs(low), math.Abs(high)))
	var ticks []tick
	for k := int(math.Ceil(low/step - 1e-9)); float64(k)*step <= high+1e-9*step; k++ {
		v := float64(k) * step
		position := (v - low) / (high - low) * length
		if flip {
			position = length - position
		}
		ticks = append(ticks, tick{position, format(v)})
	}
	return ticks
}

// tickFormatter returns the function that formats the labels of an axis. Either all labels
// except 0 have an exponent or none has one. They have enough digits to differ from each
// other.
func tickFormatter(step, largest float64) func(v float64) string {
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

// spacedTicks returns the ticks of a horizontal axis, about n or fewer. It reduces their
// number until their labels do not overlap.
func spacedTicks(s span, length float64, n int) []tick {
	const minGap = 8
	for ; ; n-- {
		ticks := newTicks(s.low, s.high, length, n, false)
		fits := true
		for i := range len(ticks) - 1 {
			distance := (labelWidth(ticks[i].Label)+labelWidth(ticks[i+1].Label))/2 + minGap
			fits = fits && ticks[i+1].At-ticks[i].At >= distance
		}
		if fits || n <= 1 {
			return ticks
		}
	}
}

// labelWidth estimates the width of a tick's label in a wide font. It assumes the font size
// that the style sheet sets on small screens.
func labelWidth(label string) float64 {
	const size = 15
	var width float64
	for _, r := range label {
		switch r {
		case ',', '.':
			width += .33
		case '-':
			width += .37
		default:
			width += .65
		}
	}
	return size * width
}

// These are the minimum margins around the plane. labelGap is the distance between the
// plane and the labels of the vertical axis.
const labelGap, minLeft, minRight, marginTop, marginBottom = 8, 46, 12, 30, 46

// Left returns the width of the margin for the labels at the left.
func (c chart) Left() float64 {
	left := float64(minLeft)
	for _, t := range c.Y {
		left = max(left, labelWidth(t.Label)+labelGap)
	}
	for _, t := range c.X {
		left = max(left, labelWidth(t.Label)/2-t.At)
	}
	return math.Ceil(left)
}

// ViewBox returns the SVG viewBox of the plane and its labels.
func (c chart) ViewBox() string {
	right := float64(minRight)
	for _, t := range c.X {
		right = max(right, t.At+labelWidth(t.Label)/2-c.Width)
	}
	return fmt.Sprintf("%g %d %g %g", -c.Left(), -marginTop, math.Ceil(c.Left()+c.Width+right), marginTop+c.Height+marginBottom)
}

// axisUpTo returns an axis from 0 to a round number that is at least v.
func axisUpTo(v float64) span {
	step := roundStep(v / 4)
	return span{0, step * math.Ceil(v/step-1e-9)}
}

// roundStep returns the smallest number that is at least x and has the form 1, 2 or 5 times
// a power of ten.
func roundStep(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= x*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// rocCharts draws one chart of ROC curves for each out-of-distribution set.
func rocCharts(r *compare.Report, rows []methodRow) ([]chart, error) {
	sets := []string{""}
	if len(r.OODSets) > 0 {
		sets = mapSlice(r.OODSets, func(s compare.Set) string { return s.Name })
	}
	var charts []chart
	for k, name := range sets {
		c := newChart("false-alarm rate", "detection rate", span{0, 1}, span{0, 1}, chartWidth, 5, 5)
		c.Set, c.Dashed = name, c.svgPath([]point{{0, 0}, {1, 1}})
		for _, m := range rows {
			roc, err := measure.ROC(m.Best.TestScores, m.Best.OODScores[k], maxCurvePoints)
			if err != nil {
				return nil, err
			}
			points := mapSlice(roc, func(p measure.ROCPoint) point { return point{p.FPR, p.TPR} })
			c.Lines = append(c.Lines, methodCurve{Method: m.Method, Color: m.Color, Name: m.Name, Path: c.svgPath(points)})
		}
		c.sortCurves()
		if len(c.Lines) > 0 {
			charts = append(charts, c)
		}
	}
	return charts, nil
}

// riskChart draws the error rate of the model against the fraction of rows accepted. It
// returns nil if the errors of the model are unknown, or if there are no methods.
func riskChart(r *compare.Report, rows []methodRow) (*chart, error) {
	if r.Wrong == nil || len(rows) == 0 {
		return nil, nil
	}
	curves := make([][]point, len(rows))
	for i, m := range rows {
		curve, err := measure.RiskCoverage(m.Best.TestScores, r.Wrong, maxCurvePoints)
		if err != nil {
			return nil, err
		}
		curves[i] = mapSlice(curve, func(p measure.RiskPoint) point { return point{p.Coverage, p.Risk} })
	}
	c := newRiskChart("fraction of test rows accepted, lowest score first", *r.ErrorRate, curves)
	for i, m := range rows {
		c.Lines[i].Method, c.Lines[i].Color, c.Lines[i].Name = m.Method, m.Color, m.Name
	}
	c.sortCurves()
	return &c, nil
}

// newRiskChart draws curves of risk (error rate) against coverage (fraction of rows
// accepted). The vertical axis reaches at least to high, the risk of all rows.
func newRiskChart(xLabel string, high float64, curves [][]point) chart {
	// Ignore the risk at low coverage. It is mostly chance, and would stretch the axis.
	const minCoverage = .05
	for _, curve := range curves {
		for _, p := range curve {
			if p.X >= minCoverage {
				high = max(high, p.Y)
			}
		}
	}
	if high == 0 {
		high = .01
	}
	c := newChart(xLabel, "error rate", span{0, 1}, axisUpTo(high), chartWidth, 5, 5)
	for _, curve := range curves {
		visible := slices.DeleteFunc(curve, func(p point) bool { return p.X < minCoverage && p.Y > c.y.high })
		c.Lines = append(c.Lines, methodCurve{Path: c.svgPath(visible)})
	}
	return c
}

// sortCurves sorts the curves so that the best methods are drawn last, on top of the others.
func (c *chart) sortCurves() {
	slices.SortStableFunc(c.Lines, func(a, b methodCurve) int {
		if (a.Color == 0) != (b.Color == 0) {
			return cmp.Compare(min(a.Color, 1), min(b.Color, 1))
		}
		return cmp.Compare(b.Method, a.Method)
	})
}
