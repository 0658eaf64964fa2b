package report

import (
	"fmt"
	"strings"

	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
)

// unlabelledBlock shows the estimated errors on rows without labels.
func unlabelledBlock(e *evaluate.Evaluation) block {
	b := block{Title: "Errors without labels"}
	if u := e.ErrorEstimate; u != nil {
		v := verdict{Label: "estimate", Message: estimateText(u, e.Rows), Advice: u.Advice}
		if u.Error == nil {
			v.Label = "no estimate"
			v.Style = "open"
		} else if u.Warning != "" {
			v.Style = "limit"
		}
		if strings.Contains(v.Advice, "labelled rows") {
			v.Advice += " (--labelled)"
		}
		b.Notes = append(b.Notes, v)
	}
	b.addEstimates(e)
	if u := e.ErrorEstimate; u != nil && u.Error != nil {
		b.addSentence("assumed: equally confident predictions are wrong as often as among the calibration rows; rows without labels cannot test this")
	}
	return b
}

// estimateText says for how many of n rows the estimate holds, or why there is none.
func estimateText(u *evaluate.ErrorEstimate, n int) string {
	if u.Error == nil {
		return u.Reason
	}
	text := fmt.Sprintf("holds for %s of %s", display.Count(u.Rows), rows.Count(n, "row"))
	switch u.Flagged {
	case 0:
	case 1:
		text += "; 1 is flagged as unfamiliar, and nothing is claimed for it"
	default:
		text += fmt.Sprintf("; %s are flagged as unfamiliar, and nothing is claimed for them", display.Count(u.Flagged))
	}
	text += fmt.Sprintf("; it rests on %s with %s", rows.Count(u.CalibrationRows, "calibration row"), rows.Count(u.CalibrationErrors, "error"))
	if u.Warning != "" {
		text += "; " + u.Warning
	}
	return text
}

// addEstimates adds a table with the estimated error rates of a classifier or the estimated
// errors of a regressor.
func (b *block) addEstimates(e *evaluate.Evaluation) {
	var names []string
	var rates []evaluate.Rate
	if u := e.ErrorEstimate; u != nil && u.Error != nil {
		names, rates = append(names, "not flagged, by confidence"), append(rates, evaluate.Rate{Fraction: *u.Error, Low: *u.Low, High: *u.High, Rows: u.Rows})
	}
	f := e.FewLabels
	if f != nil && f.Figures[0].Name != "error_rate" {
		b.Tables = append(b.Tables, poweredGrid(f))
		return
	}
	if f != nil {
		p := f.Figures[0]
		names = append(names, "all, by labelled rows and others", "labelled rows alone")
		rates = append(rates, evaluate.Rate{Fraction: p.Value, Low: p.Low, High: p.High, Rows: e.Rows}, evaluate.Rate{Fraction: p.LabelledValue, Low: p.LabelledLow, High: p.LabelledHigh, Rows: f.Rows})
	}
	if len(rates) == 0 {
		return
	}
	g := grid{Title: "Estimated error rate"}
	g.addText("rows", names)
	g.addRatesAndCounts("error rate", "estimated fraction of the predictions that are wrong", rates)
	b.Tables = append(b.Tables, g)
	if u := e.ErrorEstimate; u != nil && u.Error != nil && u.Flagged > 0 {
		b.addSentence("of all %s, %s to %s are wrong: the flagged rows may all be right or all be wrong", rows.Count(e.Rows, "row"), display.Percent(*u.AllLow), display.Percent(*u.AllHigh))
	}
}

// poweredGrid returns a table with the estimated errors of each target.
func poweredGrid(f *evaluate.FewLabels) grid {
	var names []string
	var cells []cell
	for _, p := range f.Figures {
		name := strings.ToUpper(p.Name)
		if len(f.Figures) > 2 {
			name += fmt.Sprintf(" of target %d", p.Target)
		}
		names = append(names, name+" of all rows", name+" of labelled rows alone")
		for _, v := range [][3]float64{{p.Value, p.Low, p.High}, {p.LabelledValue, p.LabelledLow, p.LabelledHigh}} {
			cells = append(cells, cell{Text: formatFourDigits(v[0]), Range: formatFourDigits(v[1]) + "–" + formatFourDigits(v[2]), Key: fmt.Sprint(v[0])})
		}
	}
	g := grid{Title: "Estimated errors"}
	g.addText("estimate", names)
	g.Heads = append(g.Heads, columnHead{Text: "value", Title: "estimated error, with its 95 % interval", Interval: true})
	g.addColumn(len(cells), func(i int) cell { return cells[i] })
	return g
}
