package regions

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/reproduce/svg"
)

// drawnRows is the number of rows in the picture.
const drawnRows = 200

// drawStar draws the box and the ellipse of a child, and the scores of the children with the most
// similar forecasts. The first target is the reading score and the second the mathematics score.
func drawStar(ctx context.Context, x, y blas32.General, level float64, path string) error {
	f, err := fit(ctx, x, y, methods()[0], level, 0)
	if err != nil {
		return err
	}
	boxes, err := f.predict(ctx, "box")
	if err != nil {
		return err
	}
	ellipsoids, err := f.predict(ctx, "ellipsoid")
	if err != nil {
		return err
	}
	order := nearest(boxes)
	return picture(boxes[order[0]], ellipsoids[order[0]], f.test.Targets, order[:min(drawnRows, len(order))], level).WriteFile(path)
}

// picture draws the regions of one row, and the targets of the rows with these indices.
func picture(box, ellipsoid attach.Prediction, y blas32.General, shown []int, level float64) *svg.Picture {
	b, e := box.Targets, ellipsoid.Targets
	p := svg.New(640, 430, "A box and an ellipse for two scores",
		"Reading and mathematics scores of children with nearly the same forecast lie along a diagonal. A box covers them with empty corners; an ellipse along the diagonal is smaller.")
	low := [2]float64{min(b[0].Lower, e[0].Lower), min(b[1].Lower, e[1].Lower)}
	high := [2]float64{max(b[0].Upper, e[0].Upper), max(b[1].Upper, e[1].Upper)}
	inBox, inEllipse := 0, 0
	var xs, ys []float64
	for _, i := range shown {
		at := []float64{float64(rows.Row(y, i)[0]), float64(rows.Row(y, i)[1])}
		xs, ys = append(xs, at[0]), append(ys, at[1])
		if b[0].Lower <= at[0] && at[0] <= b[0].Upper && b[1].Lower <= at[1] && at[1] <= b[1].Upper {
			inBox++
		}
		if ellipsoid.Ellipsoid.Contains(at) {
			inEllipse++
		}
		for t := range at {
			low[t], high[t] = min(low[t], at[t]), max(high[t], at[t])
		}
	}
	axis := func(t int, label string) svg.Axis {
		const step = 50
		a := svg.Axis{Low: step * math.Floor(low[t]/step), High: step * math.Ceil(high[t]/step), Label: label}
		for v := a.Low; v <= a.High; v += step {
			a.Ticks = append(a.Ticks, svg.Ticks(v)...)
		}
		return a
	}
	plot := svg.Plot{Picture: p, Left: 56, Top: 74, W: 350, H: 300, XAxis: axis(0, "reading score"), YAxis: axis(1, "mathematics score")}
	plot.Axes()
	plot.Dots(xs, ys, 2.6, "soft", ".75")
	left, top := plot.X(b[0].Lower), plot.Y(b[1].Upper)
	p.Rect(left, top, plot.X(b[0].Upper)-left, plot.Y(b[1].Lower)-top, 0, "s wide s-orange")
	factor := ellipsoid.Ellipsoid.Factor()
	var ex, ey []float64
	for k := range 121 {
		sin, cos := math.Sincos(2 * math.Pi * float64(k) / 120)
		ex = append(ex, ellipsoid.Ellipsoid.Centre[0]+factor[0][0]*cos)
		ey = append(ey, ellipsoid.Ellipsoid.Centre[1]+factor[1][0]*cos+factor[1][1]*sin)
	}
	plot.Curve(ex, ey, "wide s-blue")
	p.Text(20, 30, "bold", "Two scores of a child, covered at once")
	area := math.Pi * factor[0][0] * factor[1][1] / ((b[0].Upper - b[0].Lower) * (b[1].Upper - b[1].Lower))
	p.Line(430, 120, 454, 120, "wide s-orange")
	p.Text(462, 125, "", "box")
	p.Text(430, 147, "small soft", fmt.Sprintf("holds %d of these %d", inBox, len(shown)))
	p.Line(430, 180, 454, 180, "wide s-blue")
	p.Text(462, 185, "", "ellipse")
	p.Text(430, 207, "small soft", fmt.Sprintf("holds %d of these %d", inEllipse, len(shown)))
	p.Text(430, 225, "small soft", fmt.Sprintf("and has %.2f times the area", area))
	p.Circle(442, 255, 2.6, "soft")
	p.Lines(462, 260, "small soft", "children with nearly", "the same forecast")
	p.Lines(430, 318, "small soft", "Both are guaranteed to", fmt.Sprintf("cover %g %% of all rows.", 100*level))
	return p
}

// sortBy sorts indices by a key.
func sortBy(order []int, key func(i int) float64) {
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(key(a), key(b)) })
}
