package command

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/report"
)

const (
	// mostFlagged is the maximum number of rows in a report.
	mostFlagged = 200
	// mostCells is the maximum number of columns of the input table that a report shows.
	mostCells = 30
)

// worst holds the flagged rows of a report, the highest score first.
type worst []worstRow

type worstRow struct {
	row    int
	score  float64
	fields []field
}

// add keeps a flagged row if its score is among the mostFlagged highest. It copies fields,
// because the caller reuses them.
func (w *worst) add(row int, p attach.Prediction, fields []field) {
	if !p.Flag {
		return
	}
	at, _ := slices.BinarySearchFunc(*w, p.Score, func(r worstRow, score float64) int {
		if r.score >= score { // among equal scores, the earlier row comes first
			return -1
		}
		return 1
	})
	if at == mostFlagged {
		return
	}
	*w = slices.Insert(*w, at, worstRow{row, p.Score, slices.Clone(fields)})
	*w = (*w)[:min(mostFlagged, len(*w))]
}

// columns returns the fields of the rows as columns of a table.
func (w worst) columns() []report.Column {
	var list []report.Column
	if len(w) == 0 {
		return nil
	}
	for k, first := range w[0].fields {
		add := func(name string, of func(value any) any) {
			c := report.Column{Name: name}
			for _, r := range w {
				switch v := of(r.fields[k].value).(type) {
				case number:
					c.Numbers = append(c.Numbers, v.x)
				case int:
					c.Numbers = append(c.Numbers, float64(v))
				default:
					c.Text = append(c.Text, textOf(v))
				}
			}
			if len(c.Text) > 0 {
				c.Numbers = nil
			}
			list = append(list, c)
		}
		switch v := first.value.(type) {
		case bool, draws: // left out, because all rows are flagged and samples are too many
		case []number:
			for i := range v {
				add(fmt.Sprintf("%s_%d", first.name, i), func(value any) any { return value.([]number)[i] })
			}
		default:
			add(first.name, func(value any) any { return value })
		}
	}
	list = byName(list)
	slices.SortStableFunc(list, func(a, b report.Column) int { return cmp.Compare(reason(a), reason(b)) })
	return list
}

// byName replaces the numbers of classes by their names if they have names. It also leaves
// out the sizes of prediction sets.
func byName(list []report.Column) []report.Column {
	find := func(name string) int {
		return slices.IndexFunc(list, func(c report.Column) bool { return c.Name == name })
	}
	for _, of := range [][2]string{{"label", "label_name"}, {"class", "class_name"}, {"set", "set_names"}} {
		number, name := find(of[0]), find(of[1])
		if number < 0 || name < 0 {
			continue
		}
		for i, text := range list[name].Text {
			if text == "" && list[number].Numbers != nil { // a class without a name keeps its number
				list[name].Text[i] = fmt.Sprint(list[number].Numbers[i])
			}
		}
		list[name].Name = of[0]
		list = slices.Delete(list, number, number+1)
	}
	return slices.DeleteFunc(list, func(c report.Column) bool { return c.Name == "set_size" })
}

// writeReport writes the page of flagged rows.
func (r *predicted) writeReport(ctx context.Context) error {
	f, b, c, o, opened := r.call, r.bundle, r.bundle.Calibration, r.asked, r.opened
	alpha := cmp.Or(o.Alpha, c.Alpha)
	page := report.Flags{
		Bundle: filepath.Base(f.path), Rows: filepath.Base(f.x), N: r.flagged,
		Summary:   cmp.Or(r.flags(), silent(b, o)),
		PValues:   evaluate.Histogram{Counts: r.pValues[:], Expected: r.expected()},
		Guarantee: fmt.Sprintf("Of rows that are exchangeable with the %d calibration rows, at most %s are flagged on average. A p-value is the fraction of calibration rows that look at least as unusual.", c.NCal, display.GivenPercent(alpha)),
		Columns:   r.worst.columns(),
	}
	if o.FlagByClass {
		page.Guarantee += " Both refer to the calibration rows of the same predicted class."
	}
	fact := func(value, label string) { page.Facts = append(page.Facts, report.Fact{Value: value, Label: label}) }
	fact(fmt.Sprintf("%s of %s", display.Count(r.flagged), display.Count(r.rows)), "rows flagged")
	if r.sets > 0 {
		fact(fmt.Sprintf("%.3g", r.meanSet()), "mean size of prediction sets")
	}
	if o.MaxError > 0 {
		fact(fmt.Sprintf("%s of %s", display.Count(r.accepted), display.Count(r.rows)), fmt.Sprintf("rows accepted at a maximum error of %g", o.MaxError))
	}
	if c.HeldOut == rows.SplitOff {
		page.Caution = b.Guarantee()
	}
	if opened.Set != nil && len(r.worst) > 0 {
		var err error
		if page.Images, err = opened.Set.Thumbnails(ctx, r.worst.numbers()); err != nil {
			return err
		}
		if page.Images == nil {
			cells, err := cellsOf(ctx, opened.Set, r.worst.numbers())
			if err != nil {
				return err
			}
			page.Columns = beside(page.Columns, cells)
		}
	}
	return writePage(ctx, f.report, report.Flagged(page))
}

// beside adds columns of the input table to the columns of predictions. Texts go before the
// predictions, because people compare the two. Numbers go to the end, because they may be
// many.
func beside(answers, cells []report.Column) []report.Column {
	reasons := slices.IndexFunc(answers, func(c report.Column) bool { return reason(c) == 0 })
	if reasons < 0 {
		reasons = len(answers)
	}
	var texts, numbers []report.Column
	for _, c := range cells {
		if c.Numbers == nil {
			texts = append(texts, c)
		} else {
			numbers = append(numbers, c)
		}
	}
	return slices.Concat(answers[:reasons], texts, answers[reasons:], numbers)
}

// reason returns the sort key of a column. The name of the row comes first, and then the
// reasons why it is flagged.
func reason(c report.Column) int {
	return map[string]int{"input": -3, "p_value": -2, "ood_score": -1}[c.Name]
}

// numbers returns the row numbers of the flagged rows.
func (w worst) numbers() []int {
	list := make([]int, len(w))
	for i, r := range w {
		list[i] = r.row
	}
	return list
}

// cellsOf returns cells of the rows if the rows come from a table with column names.
func cellsOf(ctx context.Context, set *inputs.Set, rows []int) (list []report.Column, err error) {
	columns, err := set.Cells(ctx, rows)
	for _, c := range columns[:min(mostCells, len(columns))] {
		list = append(list, report.Column{Name: c.Name, Numbers: c.Numbers, Text: c.Texts})
	}
	return list, err
}
