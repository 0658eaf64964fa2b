package report

import (
	"fmt"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/ood/compare"
)

// maxDots is the maximum number of methods in a dot plot. Controls do not count.
const maxDots = 15

// dotplot shows the AUROC of the best methods and of the controls on an axis from 0.5 to 1.
// Each method has a line of its own.
type dotplot struct {
	Width, Height, Bottom, RowHeight float64
	Ticks                            []tick
	Competitors                      int // number of methods that are not controls
	Rows                             []dotRow
}

// dotRow is the line of one method in a dot plot.
type dotRow struct {
	Method        int // rank of the method, from 0
	Name, Value   string
	Color         int // 1 to maxColours, or 0 for a method without its own colour
	Control       bool
	Top, Y        float64
	Low, At, High float64
	Below         bool      // whether the AUROC is below 0.5, so that the dot is drawn at the end of the axis
	Marks         []float64 // positions of the configurations
}

// newDotplot draws the ranked methods. rows holds their rows of the table, in the same
// order.
func newDotplot(methods []compare.MethodReport, rows []methodRow) dotplot {
	const rowHeight, letters, left, right = 22.0, 24, 178.0, 50.0
	d := dotplot{Width: chartWidth, RowHeight: rowHeight}
	axis := span{chanceAUROC, 1}
	position := func(v float64) float64 { return left + axis.position(v)*(d.Width-left-right) }
	for i, m := range methods {
		if !m.Control {
			d.Competitors++
		}
		if !m.Control && d.Competitors > maxDots {
			continue
		}
		name := []rune(m.Name)
		if len(name) > letters {
			name = append(name[:letters-1], '…')
		}
		top := rowHeight * float64(len(d.Rows))
		newRow := dotRow{
			Method: i, Name: string(name), Value: display.Fixed(m.AUROC.Mean, 3), Color: rows[i].Color, Control: m.Control, Top: top, Y: top + rowHeight/2,
			Low: position(m.AUROC.Mean), At: position(m.AUROC.Mean), High: position(m.AUROC.Mean), Below: m.AUROC.Mean < chanceAUROC,
		}
		if m.CI != nil {
			newRow.Low, newRow.High = position(m.CI.AUROC[0]), position(m.CI.AUROC[1])
		}
		if len(m.Configs) > 1 {
			newRow.Marks = mapSlice(m.Configs, func(c compare.Config) float64 { return position(c.AUROC) })
		}
		d.Rows = append(d.Rows, newRow)
	}
	d.Bottom = rowHeight * float64(len(d.Rows))
	d.Height = d.Bottom + 28
	for _, v := range []float64{.5, .6, .7, .8, .9, 1} {
		d.Ticks = append(d.Ticks, tick{position(v), display.Fixed(v, 1)})
	}
	return d
}

// comparisonFacts returns the figures at the top of a comparison.
func comparisonFacts(r *compare.Report, methods []compare.MethodReport) []Fact {
	competitors := 0
	var best *compare.MethodReport
	for i := range methods {
		if !methods[i].Control {
			competitors++
			if best == nil {
				best = &methods[i]
			}
		}
	}
	if best == nil || competitors < 2 {
		return nil
	}
	label := fmt.Sprintf("AUROC of %s, the best of %s", best.Name, rows.Count(competitors, "method"))
	facts := []Fact{{display.Fixed(best.AUROC.Mean, 3), label}, {display.Percent(best.FPR95.Mean), "false alarms when 95 % of OOD rows are detected (FPR95)"}}
	if best.CI != nil {
		closeToBest := 0
		for _, m := range methods {
			if !m.Control && m.CI != nil && m.CI.AUROC[1] >= best.CI.AUROC[0] {
				closeToBest++
			}
		}
		facts = append(facts, Fact{display.Count(closeToBest), "methods whose 95 % interval reaches that of the best"})
	}
	if r.ErrorRate != nil {
		facts = append(facts, Fact{display.Percent(*r.ErrorRate), "error of the model on the test rows"})
	}
	return facts
}
