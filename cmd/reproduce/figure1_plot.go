package main

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// shownCertificates is the kind whose score is drawn around the median.
const shownCertificates = 2

// plot draws the intervals above and the scores below.
func (c toyCurves) plot(path string) error {
	above, err := c.plotIntervals()
	if err != nil {
		return err
	}
	below, err := c.plotScores()
	if err != nil {
		return err
	}
	return savePanels([][]*plot.Plot{{above}, {below}}, 18*vg.Centimeter, 16*vg.Centimeter, path)
}

func (c toyCurves) plotIntervals() (*plot.Plot, error) {
	p := newFigure("Aleatoric and epistemic uncertainty of one network", "", "y")
	median := c.quantiles[1]
	score := c.scores[shownCertificates]
	least, most := slices.Min(score), slices.Max(score)
	lower, upper := make([]float64, len(c.x)), make([]float64, len(c.x))
	for i, v := range score {
		half := 3 * (v - least) / (most - least)
		lower[i], upper[i] = median[i]-half, median[i]+half
	}
	gray := newInk(0x333d4a, 0xff)
	far, err := figureBand(c.x, lower, upper, newInk(0xc23b82, 0x38))
	if err != nil {
		return nil, err
	}
	band, err := figureBand(c.x, c.quantiles[0], c.quantiles[len(c.quantiles)-1], newInk(0x333d4a, 0x48))
	if err != nil {
		return nil, err
	}
	dots, err := figureDots(c.data.x, c.data.y, newInk(0x2f6fde, 0x60), vg.Points(1.2))
	if err != nil {
		return nil, err
	}
	solid, err := figureLine(c.x, median, gray, vg.Points(1.6))
	if err != nil {
		return nil, err
	}
	p.Add(far, band, dots, solid)
	p.Legend.Add("rows trained on", dots)
	p.Legend.Add("median", solid)
	for l := 2; l < len(c.quantiles)-1; l++ {
		dashed, err := figureLine(c.x, c.quantiles[l], gray, vg.Points(.9), vg.Points(4), vg.Points(2))
		if err != nil {
			return nil, err
		}
		if p.Add(dashed); l == 2 {
			p.Legend.Add("65 % and 80 % quantiles", dashed)
		}
	}
	p.Legend.Add("95 % interval (aleatoric)", band)
	p.Legend.Add("median ± scaled score (epistemic)", far)
	p.Legend.Top, p.Legend.XOffs = false, -5.5*vg.Centimeter
	p.X.Min, p.X.Max, p.X.Tick.Marker = drawFrom, drawTo, toyTicks()
	p.Y.Min, p.Y.Max = -4.4, 4
	return p, nil
}

// plotScores draws scores in units of their thresholds. It plots logarithms: a
// logarithmic scale of gonum/plot leaves a gap above the axis.
func (c toyCurves) plotScores() (*plot.Plot, error) {
	p := newFigure("", "x", "certificate score / threshold")
	low, high := 0., 0.
	for v, scores := range c.scores {
		relative := make([]float64, len(scores))
		for i, s := range scores {
			relative[i] = math.Log10(max(s/c.threshold[v], 1e-3))
			low, high = min(low, relative[i]), max(high, relative[i])
		}
		line, err := figureLine(c.x, relative, figureColor(v), vg.Points(1.4))
		if err != nil {
			return nil, err
		}
		p.Add(line)
		p.Legend.Add(c.variants[v], line)
	}
	at, err := figureLine([]float64{drawFrom, drawTo}, []float64{0, 0}, newInk(0x333d4a, 0xff), vg.Points(.8), vg.Points(4), vg.Points(2))
	if err != nil {
		return nil, err
	}
	p.Add(at)
	p.Legend.Add("threshold: 5 % of data above", at)
	for _, ends := range [][2]float64{{dataFrom, gapFrom}, {gapTo, dataTo}} {
		inside, err := figureBand(ends[:], []float64{low, low}, []float64{high, high}, newInk(0x2f6fde, 0x18))
		if err != nil {
			return nil, err
		}
		p.Add(inside)
		where, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: ends[0] + .02, Y: high - .6}}, Labels: []string{"data here"}})
		if err != nil {
			return nil, fmt.Errorf("label the data: %w", err)
		}
		where.TextStyle[0].Font, where.TextStyle[0].Color = p.Legend.TextStyle.Font, p.Legend.TextStyle.Color
		p.Add(where)
	}
	p.Y.Tick.Marker = decades(low, high)
	p.X.Min, p.X.Max, p.X.Tick.Marker = drawFrom, drawTo, toyTicks()
	p.Y.Min, p.Y.Max = low, high
	p.Legend.Top, p.Legend.XOffs = false, -5.5*vg.Centimeter
	return p, nil
}

// decades are the powers of ten in a range of exponents.
func decades(low, high float64) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for e := math.Ceil(low); e <= high; e++ {
		ticks = append(ticks, plot.Tick{Value: e, Label: fmt.Sprintf("%g", math.Pow(10, e))})
	}
	return ticks
}

func toyTicks() plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for x := drawFrom; x <= drawTo; x += .5 {
		ticks = append(ticks, plot.Tick{Value: x, Label: fmt.Sprint(x)})
	}
	return ticks
}
