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

// counts draws a histogram of numbers from 0 to 1 and, as a line, the counts
// expected. The axis has room for others too.
func counts(title, xLabel string, h evaluate.Histogram, others ...int) chart {
	high := slices.Max(slices.Concat(floats(h.Counts), floats(others), h.Expected, []float64{1}))
	c := newChart(xLabel, "rows", span{0, 1}, upTo(high), chartWidth, 5, int(min(5, high)))
	c.Title = title
	c.Areas = []shape{{0, c.area(floats(h.Counts))}}
	c.Dashed = c.steps(h.Expected)
	c.Note = "Dashed: expected."
	return c
}

// area is the outline of bars of one width along the whole axis.
func (c *chart) area(x []float64) string {
	return strings.TrimSuffix(outline(x, c.y.high, c.Width, c.Height), "Z")
}

// steps are the tops of bars of one width along the whole axis.
func (c *chart) steps(x []float64) string {
	var b strings.Builder
	for i, v := range x {
		b.WriteString(map[bool]string{true: "M0 ", false: "V"}[i == 0])
		b.WriteString(short(c.Height * (1 - c.y.share(v))))
		b.WriteString("H" + short(c.Width*float64(i+1)/float64(len(x))))
	}
	return b.String()
}

// placeOf is a share over what is asked.
func placeOf(r evaluate.Rate) point { return point{r.Nominal, r.Fraction} }

// intervals draws shares over places, each with its interval.
func (c *chart) intervals(color int, rates []evaluate.Rate) {
	var bars, marks strings.Builder
	for _, r := range rates {
		bars.WriteString(c.path([]point{{r.Nominal, r.Low}, {r.Nominal, r.High}}))
		marks.WriteString(c.path([]point{placeOf(r)}) + "h0")
	}
	c.Bars, c.Marks = append(c.Bars, shape{color, bars.String()}), append(c.Marks, shape{color, marks.String()})
}

// reliability draws how often answers of each confidence are right.
func reliability(e *evaluate.Classifier) chart {
	c := newChart("confidence", "right", span{0, 1}, span{0, 1}, chartWidth, 5, 5)
	c.Title, c.Dashed = "Is confidence what it says?", c.path([]point{{0, 0}, {1, 1}})
	c.Note = "Each dot gathers the answers of a fifteenth of the confidences, with its 95 % interval. On the dashed line they are right as often as they say."
	draw := func(color int, name string, r evaluate.Reliability) {
		c.Lines = append(c.Lines, line{Color: color + 1, Name: name, Path: c.path(each(r.Bins, placeOf))})
		c.intervals(color, r.Bins)
		c.Key = append(c.Key, shapeKey{color, name})
	}
	if e.Calibrated == nil {
		draw(0, "the network's own", e.Uncalibrated)
		return c
	}
	draw(1, "the network's own", e.Uncalibrated)
	draw(0, "with temperature "+display.Number(e.Temperature, 3), *e.Calibrated)
	return c
}

// riskCoverage draws the error among the most confident answers.
func riskCoverage(e *evaluate.Classifier) chart {
	points := each(e.RiskCoverage, func(p evaluate.RiskPoint) point { return point{p.Coverage, p.Risk} })
	c := riskPlane("inputs answered, most confident first", 1-e.Accuracy.Fraction, [][]point{points})
	c.Title = "What does it cost to err less?"
	c.Lines[0].Color, c.Lines[0].Name = 1, "risk and coverage"
	if e.Accepted != nil && e.SelectiveError != nil {
		c.Marks = append(c.Marks, shape{1, c.path([]point{{e.Accepted.Fraction, e.SelectiveError.Fraction}}) + "h0"})
		c.Key = []shapeKey{{0, "by confidence"}, {1, "the rows accepted"}}
	}
	return c
}

// sizes draws how many sets hold how many classes.
func sizes(s evaluate.Coverage) chart {
	const most = 60 // bars that find room
	wide := (len(s.SizeCounts) + most - 1) / most
	x := make([]float64, (len(s.SizeCounts)+wide-1)/wide)
	for k, n := range s.SizeCounts {
		x[k/wide] += float64(n)
	}
	high := slices.Max(x)
	c := newChart("classes in the set", "rows", span{-.5, float64(len(x)*wide) - .5}, upTo(high), chartWidth, min(5, len(s.SizeCounts)), int(min(5, high)))
	c.Title, c.Areas = fmt.Sprintf("How large are sets at level %g?", s.Nominal), []shape{{0, c.area(x)}}
	if wide > 1 {
		c.Note = fmt.Sprintf("Each bar gathers %d sizes.", wide)
	}
	return c
}

// levels draws coverage against the level asked for.
func levels(list []evaluate.Coverage) chart {
	low, rates := 1., each(list, func(c evaluate.Coverage) evaluate.Rate { return c.Rate })
	for _, r := range rates {
		low = min(low, r.Low, r.Nominal)
	}
	both := span{math.Floor(10*low-1e-9) / 10, 1}
	c := newChart("level asked for", "covered", both, both, chartWidth, 5, 5)
	c.Title, c.Dashed = "Is coverage what was asked?", c.path([]point{{both.low, both.low}, {1, 1}})
	c.Lines = []line{{Color: 1, Name: "coverage", Path: c.path(each(rates, placeOf))}}
	c.intervals(0, rates)
	return c
}

// against draws intervals over the targets that they are to hold.
func against(points []evaluate.TargetPoint, level float64) chart {
	targets, ends := make([]float64, len(points)), make([]float64, 0, 2*len(points))
	for i, p := range points {
		targets[i] = p.Target
		ends = append(ends, p.Lower, p.Upper)
	}
	x, y := span{slices.Min(targets), slices.Max(targets)}.open(), inner(ends)
	c := newChart("target", "interval", x, span{min(x.low, y.low), max(x.high, y.high)}, chartWidth, 5, 5)
	c.Title, c.Dashed, c.Many = fmt.Sprintf("Do intervals at level %g hold the target?", level), c.path([]point{{x.low, x.low}, {x.high, x.high}}), true
	var held, missed strings.Builder
	for _, p := range points {
		to := &held
		if p.Target < p.Lower || p.Target > p.Upper {
			to = &missed
		}
		to.WriteString(c.path([]point{{p.Target, p.Lower}, {p.Target, p.Upper}}))
	}
	c.Bars = []shape{{0, held.String()}, {1, missed.String()}}
	c.Key = []shapeKey{{0, "held"}, {1, "missed"}}
	c.Note = "Each line is the interval of a row; one that crosses the dashed line holds its target. " + rows.Count(len(points), "row") + "."
	return c
}

// inner is the span of all numbers but the outermost half per cent on each side:
// a few wild ones would leave no room for the others.
func inner(x []float64) span {
	slices.Sort(x)
	return span{x[len(x)/200], x[len(x)-1-len(x)/200]}
}

// open is the span, or one about it where it holds one number alone.
func (s span) open() span {
	if s.low < s.high {
		return s
	}
	margin := max(.5, math.Abs(s.low)/100)
	return span{s.low - margin, s.high + margin}
}

// pit draws the levels of targets in the forecasts.
func pit(t evaluate.Target) chart {
	h := t.PIT
	if t.PITCalibrated != nil {
		h = t.PITCalibrated
	}
	c := counts("Where in the forecasts do targets lie?", "level of the target among the forecast's", *h, t.PIT.Counts...)
	c.Note = "Dashed: expected. A heap in the middle: forecasts are wider than need be; at the ends: too narrow."
	if t.PITCalibrated != nil {
		c.Lines = []line{{Color: 2, Name: "the head's own", Path: c.steps(floats(t.PIT.Counts))}}
		c.Key = []shapeKey{{0, "calibrated"}, {1, "the head's own"}}
	}
	return c
}

func floats(counts []int) []float64 {
	return each(counts, func(n int) float64 { return float64(n) })
}
