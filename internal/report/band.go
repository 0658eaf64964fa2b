package report

import "slices"

// Band holds a one-dimensional regression with its uncertainties, as in figure 1 of
// Tagasovska & Lopez-Paz (2019). X is ascending, and Median, Lower, Upper and Epistemic
// have one value for each X.
type Band struct {
	Title                    string
	X, Median, Lower, Upper  []float64
	Epistemic                []float64 // p-value for each X; a low value means unfamiliar
	Alpha                    float64   // an X is flagged if its p-value is at most Alpha
	TrainX, TrainY           []float64
	Level, Coverage, MeanGap float64 // nominal level, and coverage and mean width on test rows
}

// Chart draws the band. Flagged regions have the colour of out-of-distribution rows. The
// interval and the median have the colour of in-distribution rows.
func (b *Band) Chart() chart {
	last := len(b.X) - 1
	low := min(slices.Min(b.Lower), slices.Min(b.TrainY))
	high := max(slices.Max(b.Upper), slices.Max(b.TrainY))
	c := newChart("x", "y", span{b.X[0], b.X[last]}, span{low, high}, 2*chartWidth, 10, 5)
	flagged := func(i int) bool { return b.Epistemic[i] <= b.Alpha }
	for start := 0; start <= last; {
		end := start
		for end <= last && flagged(end) == flagged(start) {
			end++
		}
		if left, right := b.X[start], b.X[min(end, last)]; flagged(start) {
			c.Areas = append(c.Areas, shape{1, c.svgPath([]point{{left, low}, {right, low}, {right, high}, {left, high}})})
		}
		start = end
	}
	var outline, upper, median []point
	for i, x := range b.X {
		outline, upper, median = append(outline, point{x, b.Lower[i]}), append(upper, point{x, b.Upper[i]}), append(median, point{x, b.Median[i]})
	}
	slices.Reverse(upper)
	c.Areas = append(c.Areas, shape{0, c.svgPath(append(outline, upper...))})
	for i, x := range b.TrainX {
		c.Dots += c.svgPath([]point{{x, b.TrainY[i]}}) + "h0"
	}
	c.Lines = []methodCurve{{Color: 1, Name: "median", Path: c.svgPath(median)}}
	return c
}
