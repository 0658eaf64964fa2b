package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
)

// countChart draws a histogram of numbers from 0 to 1, and their expected counts as a dashed
// line. The vertical axis also has room for the counts in others.
func countChart(title, xLabel string, h evaluate.Histogram, others ...int) chart {
	high := slices.Max(slices.Concat(toFloats(h.Counts), toFloats(others), h.Expected, []float64{1}))
	c := newChart(xLabel, "rows", span{0, 1}, axisUpTo(high), chartWidth, 5, int(min(5, high)))
	c.Title = title
	c.Areas = []shape{{0, c.areaPath(toFloats(h.Counts))}}
	c.Dashed = c.stepPath(h.Expected)
	c.Note = "Dashed: expected count."
	return c
}

// areaPath returns the outline of bars of equal width along the whole axis.
func (c *chart) areaPath(x []float64) string {
	return strings.TrimSuffix(histogramPath(x, c.y.high, c.Width, c.Height), "Z")
}

// stepPath returns a line along the tops of bars of equal width.
func (c *chart) stepPath(x []float64) string {
	var b strings.Builder
	for i, v := range x {
		b.WriteString(map[bool]string{true: "M0 ", false: "V"}[i == 0])
		b.WriteString(formatCoordinate(c.Height * (1 - c.y.position(v))))
		b.WriteString("H" + formatCoordinate(c.Width*float64(i+1)/float64(len(x))))
	}
	return b.String()
}

// calibrationPoint returns the point with the nominal rate as x and the observed rate as y.
func calibrationPoint(r evaluate.Rate) point { return point{r.Nominal, r.Fraction} }

// addIntervals draws observed rates against their nominal rates, with an interval for each
// rate.
func (c *chart) addIntervals(color int, rates []evaluate.Rate) {
	var bars, marks strings.Builder
	for _, r := range rates {
		bars.WriteString(c.svgPath([]point{{r.Nominal, r.Low}, {r.Nominal, r.High}}))
		marks.WriteString(c.svgPath([]point{calibrationPoint(r)}) + "h0")
	}
	c.Bars, c.Marks = append(c.Bars, shape{color, bars.String()}), append(c.Marks, shape{color, marks.String()})
}

// minSolidRows is the number of rows below which the chart draws a bin of confidence faintly.
const minSolidRows = 20

// reliabilityChart draws the accuracy of the predictions against their confidence, with one
// dot per bin.
func reliabilityChart(e *evaluate.Classifier) chart {
	c := newChart("confidence", "accuracy", span{0, 1}, span{0, 1}, chartWidth, 5, 5)
	c.Title, c.Dashed = "Reliability diagram: is confidence right?", c.svgPath([]point{{0, 0}, {1, 1}})
	c.Note = fmt.Sprintf("Each dot is one of 15 bins of equal width; its area grows with the number of rows. Bins with fewer than %d rows are faint, without interval and line. On the dashed line, accuracy equals confidence.", minSolidRows)
	largest := 0
	for _, r := range []*evaluate.Reliability{&e.Uncalibrated, e.Calibrated} {
		if r != nil {
			for _, b := range r.Bins {
				largest = max(largest, b.Rows)
			}
		}
	}
	draw := func(color int, name string, r evaluate.Reliability) {
		const minRadius, maxRadius = 3.0, 11.0 // radii of circles in pixels
		var solid []evaluate.Rate
		for _, b := range r.Bins {
			tooFew := b.Rows < minSolidRows
			if !tooFew {
				solid = append(solid, b)
			}
			c.Circles = append(c.Circles, circle{
				Color: color, X: c.x.position(b.Nominal) * c.Width, Y: (1 - c.y.position(b.Fraction)) * c.Height,
				R: max(minRadius, maxRadius*math.Sqrt(float64(b.Rows)/float64(max(largest, 1)))), Faint: tooFew,
				Title: fmt.Sprintf("%s: confidence %s, accuracy %s, %s", name, display.Percent(b.Nominal), display.Percent(b.Fraction), rows.Count(b.Rows, "row")),
			})
		}
		c.Lines = append(c.Lines, methodCurve{Color: color + 1, Name: name, Path: c.svgPath(mapSlice(solid, calibrationPoint))})
		var bars strings.Builder
		for _, b := range solid {
			bars.WriteString(c.svgPath([]point{{b.Nominal, b.Low}, {b.Nominal, b.High}}))
		}
		c.Bars = append(c.Bars, shape{color, bars.String()})
		c.Key = append(c.Key, legendEntry{color, name})
	}
	if e.Calibrated == nil {
		draw(0, "softmax", e.Uncalibrated)
		return c
	}
	draw(1, "uncalibrated", e.Uncalibrated)
	draw(0, "temperature "+display.Number(e.Temperature, 3), *e.Calibrated)
	return c
}

// riskCoverageChart draws the error rate of the most confident predictions against their
// fraction.
func riskCoverageChart(e *evaluate.Classifier) chart {
	points := mapSlice(e.RiskCoverage, func(p evaluate.RiskPoint) point { return point{p.Coverage, p.Risk} })
	c := newRiskChart("fraction of rows accepted, most confident first", 1-e.Accuracy.Fraction, [][]point{points})
	c.Title = "Risk–coverage curve: fewer predictions, fewer errors"
	c.Note = "The error rate among the accepted predictions, if only the most confident ones are accepted."
	c.Lines[0].Color, c.Lines[0].Name = 1, "risk and coverage"
	if e.Accepted != nil && e.SelectiveError != nil {
		c.Marks = append(c.Marks, shape{1, c.svgPath([]point{{e.Accepted.Fraction, e.SelectiveError.Fraction}}) + "h0"})
		c.Key = []legendEntry{{0, "by confidence"}, {1, "accepted by --max-error"}}
	}
	return c
}

// setSizeChart draws how many prediction sets have each size.
func setSizeChart(s evaluate.Coverage) chart {
	const maxBars = 60 // maximum number of bars
	sizesPerBar := (len(s.SizeCounts) + maxBars - 1) / maxBars
	x := make([]float64, (len(s.SizeCounts)+sizesPerBar-1)/sizesPerBar)
	for k, n := range s.SizeCounts {
		x[k/sizesPerBar] += float64(n)
	}
	high := slices.Max(x)
	c := newChart("classes in the set", "sets", span{-.5, float64(len(x)*sizesPerBar) - .5}, axisUpTo(high), chartWidth, min(5, len(s.SizeCounts)), int(min(5, high)))
	c.Title, c.Areas = fmt.Sprintf("Size of prediction sets at level %g", s.Nominal), []shape{{0, c.areaPath(x)}}
	if sizesPerBar > 1 {
		c.Note = fmt.Sprintf("Each bar covers %d sizes.", sizesPerBar)
	}
	return c
}

// coverageChart draws the observed coverage against the guaranteed level.
func coverageChart(list []evaluate.Coverage) chart {
	low, rates := 1., mapSlice(list, func(c evaluate.Coverage) evaluate.Rate { return c.Rate })
	for _, r := range rates {
		low = min(low, r.Low, r.Nominal)
	}
	axis := span{math.Floor(10*low-1e-9) / 10, 1}
	c := newChart("guaranteed level", "coverage", axis, axis, chartWidth, 5, 5)
	c.Title, c.Dashed = "Coverage by level", c.svgPath([]point{{axis.low, axis.low}, {1, 1}})
	c.Note = "Dashed: coverage equals the guaranteed level. Bars: 95 % intervals."
	c.Lines = []methodCurve{{Color: 1, Name: "coverage", Path: c.svgPath(mapSlice(rates, calibrationPoint))}}
	c.addIntervals(0, rates)
	return c
}

// intervalChart draws intervals against the targets that they should contain.
func intervalChart(points []evaluate.TargetPoint, level float64) chart {
	targets, ends := make([]float64, len(points)), make([]float64, 0, 2*len(points))
	for i, p := range points {
		targets[i] = p.Target
		ends = append(ends, p.Lower, p.Upper)
	}
	x, y := span{slices.Min(targets), slices.Max(targets)}.widened(), innerRange(ends)
	c := newChart("target", "interval", x, span{min(x.low, y.low), max(x.high, y.high)}, chartWidth, 5, 5)
	c.Title, c.Dashed, c.Many = fmt.Sprintf("Intervals at level %g and their targets", level), c.svgPath([]point{{x.low, x.low}, {x.high, x.high}}), true
	var contains, misses strings.Builder
	for _, p := range points {
		path := &contains
		if p.Target < p.Lower || p.Target > p.Upper {
			path = &misses
		}
		path.WriteString(c.svgPath([]point{{p.Target, p.Lower}, {p.Target, p.Upper}}))
	}
	c.Bars = []shape{{0, contains.String()}, {1, misses.String()}}
	c.Key = []legendEntry{{0, "contains its target"}, {1, "misses it"}}
	c.Note = "Each line is the interval of one of " + rows.Count(len(points), "row") + ". An interval that crosses the dashed line contains its target."
	return c
}

// innerRange sorts the numbers and returns their range without the outermost 0.5 % on each
// side. A few extreme numbers would leave no room for the others.
func innerRange(x []float64) span {
	slices.Sort(x)
	return span{x[len(x)/200], x[len(x)-1-len(x)/200]}
}

// widened returns s, or a wider span if both ends of s are equal.
func (s span) widened() span {
	if s.low < s.high {
		return s
	}
	margin := max(.5, math.Abs(s.low)/100)
	return span{s.low - margin, s.high + margin}
}

// pitChart draws a histogram of the probability integral transform (PIT). The PIT of a row is
// the level of its target in the predicted distribution.
func pitChart(t evaluate.Target) chart {
	h := t.PIT
	if t.PITCalibrated != nil {
		h = t.PITCalibrated
	}
	c := countChart("Levels of the targets (PIT)", "level of the target in the predicted distribution", *h, t.PIT.Counts...)
	c.Note = "Dashed: expected count. A peak in the middle: distributions are too wide. Peaks at the ends: too narrow."
	if t.PITCalibrated != nil {
		c.Lines = []methodCurve{{Color: 2, Name: "uncalibrated", Path: c.stepPath(toFloats(t.PIT.Counts))}}
		c.Key = []legendEntry{{0, "calibrated"}, {1, "uncalibrated"}}
	}
	return c
}

func toFloats(counts []int) []float64 {
	return mapSlice(counts, func(n int) float64 { return float64(n) })
}
