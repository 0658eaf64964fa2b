package main

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"github.com/attach-uncertainty/attach/heads"
)

// plotTheorem1 draws the exact tail and the bounds for certificates of
// variance 1.
func plotTheorem1(path string) error {
	var panels []*plot.Plot
	for _, k := range []int{1, 10, 100} {
		r := heads.Response{Variances: slices.Repeat([]float64{1}, k)}
		p := newFigure(fmt.Sprintf("k = %d, Γ = 1", k), "t", "")
		const low = -8.
		var x []float64
		end := 8 * math.Sqrt(2*float64(k))
		for i := range 201 {
			x = append(x, end*float64(i)/200)
		}
		for i, curve := range []struct {
			name  string
			value func(t float64) float64
			wide  vg.Length
		}{
			{"norm, Gaussian", r.NormBound, 1.2},
			{"printed in the paper", r.PrintedBound, 1.6},
			{"Laurent & Massart", r.LaurentMassart, 1.2},
			{"Chernoff", r.Chernoff, 1.2},
			{"the tail", func(t float64) float64 { return exactTail(r.Variances, t) }, 2.2},
		} {
			var at, y []float64
			for _, t := range x {
				if log := math.Log10(curve.value(t)); log >= low {
					at, y = append(at, t), append(y, log)
				}
			}
			ink := figureColor(i)
			if curve.name == "the tail" {
				ink = newInk(0x333d4a, 0xff)
			}
			line, err := figureLine(at, y, ink, vg.Points(float64(curve.wide)))
			if err != nil {
				return err
			}
			p.Add(line)
			if k == 100 { // the panel with room for it
				p.Legend.Add(curve.name, line)
			}
		}
		if k == 1 {
			p.Y.Label.Text = "P(‖Cᵀx‖² − E‖Cᵀx‖² ≥ t)"
		}
		p.Legend.Top, p.Legend.Left, p.Legend.XOffs = false, true, .5*vg.Centimeter
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, end, low, 0
		p.Y.Tick.Marker = decades(low, 0)
		panels = append(panels, p)
	}
	return savePanels([][]*plot.Plot{panels}, 24*vg.Centimeter, 8*vg.Centimeter, path)
}
