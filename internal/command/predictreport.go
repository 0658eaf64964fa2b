package command

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"path/filepath"
	"slices"

	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/explain"
	"github.com/attach-uncertainty/attach/internal/report"
	"github.com/attach-uncertainty/attach/schema"
)

const (
	// maxReportRows is the maximum number of rows in a report.
	maxReportRows = 200
	// maxReportColumns is the maximum number of columns of the input table that a report
	// shows.
	maxReportColumns = 30
)

// flaggedRows holds the flagged rows of a report, the highest score first.
type flaggedRows []flaggedRow

type flaggedRow struct {
	row         int
	score       float64
	fields      []field
	reasons     []schema.Reason
	nearest     []int                // nearest rows of --fitted
	explanation *explain.Explanation // nil if the score was not attributed
}

// addReasons adds reasons to the field of reasons.
func (r *flaggedRow) addReasons(texts []string) {
	for k, f := range r.fields {
		if list, ok := f.value.([]string); ok && f.name == "reasons" {
			r.fields[k].value = slices.Concat(list, texts)
		}
	}
}

// add keeps a flagged row if its score is among the maxReportRows highest. It copies fields,
// because the caller reuses them.
func (w *flaggedRows) add(row flaggedRow, flagged bool) {
	if !flagged {
		return
	}
	index, _ := slices.BinarySearchFunc(*w, row.score, func(r flaggedRow, score float64) int {
		if r.score >= score { // among equal scores, the earlier row comes first
			return -1
		}
		return 1
	})
	if index == maxReportRows {
		return
	}
	row.fields = slices.Clone(row.fields)
	*w = slices.Insert(*w, index, row)
	*w = (*w)[:min(maxReportRows, len(*w))]
}

// columns returns the fields of the rows as columns of a table.
func (w flaggedRows) columns() []report.Column {
	var list []report.Column
	if len(w) == 0 {
		return nil
	}
	for k, first := range w[0].fields {
		add := func(name string, get func(value any) any) {
			c := report.Column{Name: name}
			for _, r := range w {
				switch v := get(r.fields[k].value).(type) {
				case number:
					c.Numbers = append(c.Numbers, v.x)
				case int:
					c.Numbers = append(c.Numbers, float64(v))
				default:
					c.Text = append(c.Text, formatText(v))
				}
			}
			if len(c.Text) > 0 {
				c.Numbers = nil
			}
			list = append(list, c)
		}
		switch v := first.value.(type) {
		case bool, samples: // left out, because all rows are flagged and samples are too many
		case []number:
			for i := range v {
				add(fmt.Sprintf("%s_%d", first.name, i), func(value any) any { return value.([]number)[i] })
			}
		default:
			add(first.name, func(value any) any { return value })
		}
	}
	list = replaceByNames(list)
	slices.SortStableFunc(list, func(a, b report.Column) int { return cmp.Compare(columnRank(a), columnRank(b)) })
	return list
}

// replaceByNames replaces the numbers of classes by their names if they have names. It also
// leaves out the sizes of prediction sets.
func replaceByNames(list []report.Column) []report.Column {
	find := func(name string) int {
		return slices.IndexFunc(list, func(c report.Column) bool { return c.Name == name })
	}
	for _, pair := range [][2]string{{"label", "label_name"}, {"class", "class_name"}, {"set", "set_names"}} {
		number, name := find(pair[0]), find(pair[1])
		if number < 0 || name < 0 {
			continue
		}
		for i, text := range list[name].Text {
			if text == "" && list[number].Numbers != nil { // a class without a name keeps its number
				list[name].Text[i] = fmt.Sprint(list[number].Numbers[i])
			}
		}
		list[name].Name = pair[0]
		list = slices.Delete(list, number, number+1)
	}
	return slices.DeleteFunc(list, func(c report.Column) bool { return c.Name == "set_size" })
}

// writeReport writes the page of flagged rows.
func (r *predictResult) writeReport(ctx context.Context) error {
	f, b, c, o, input := r.flags, r.bundle, r.bundle.Calibration, r.options, r.input
	alpha := cmp.Or(o.Alpha, c.Alpha)
	page := report.Flags{
		Bundle: filepath.Base(f.path), Rows: filepath.Base(f.x), N: r.flagged,
		Summary:   cmp.Or(r.flagSummary(), describeUnflaggable(b, o)),
		PValues:   evaluate.Histogram{Counts: r.pValues[:], Expected: r.expectedPValues()},
		Guarantee: fmt.Sprintf("Of rows that are exchangeable with the %d calibration rows, at most %s are flagged on average. A p-value is the fraction of calibration rows that look at least as unusual.", c.NCal, display.GivenPercent(alpha)),
		Columns:   r.worst.columns(),
	}
	if r.reasons {
		page.Reasons = r.reasonCounts()
		for _, c := range r.input.Schema.Summary().NotableColumns() {
			page.Changes = append(page.Changes, c.String())
		}
		page.Changes = page.Changes[:min(maxNotedColumns, len(page.Changes))]
	}
	if o.FlagByClass {
		page.Guarantee += " Both refer to the calibration rows of the same predicted class."
	}
	fact := func(value, label string) { page.Facts = append(page.Facts, report.Fact{Value: value, Label: label}) }
	fact(fmt.Sprintf("%s of %s", display.Count(r.flagged), display.Count(r.rows)), "rows flagged")
	if r.sets > 0 {
		fact(fmt.Sprintf("%.3g", r.meanSetSize()), "mean size of prediction sets")
	}
	if o.MaxError > 0 {
		fact(fmt.Sprintf("%s of %s", display.Count(r.accepted), display.Count(r.rows)), fmt.Sprintf("rows accepted at a maximum error of %g", o.MaxError))
	}
	if c.HeldOut == rows.SplitOff {
		page.Caution = b.Guarantee()
	}
	if input.Set != nil && len(r.worst) > 0 {
		var err error
		if r.explainer != nil {
			p := newProgress(r.stderr, "explain")
			err := r.explainer.explainMissing(ctx, input.Set, r.worst, r.flags.explainRows, p)
			p.end()
			if err != nil {
				return err
			}
		}
		if page.Images, err = input.Set.Thumbnails(ctx, r.worst.rowNumbers()); err != nil {
			return err
		}
		if page.Images != nil && r.explainer != nil {
			page.HeatMaps = r.worst.heatMaps()
		}
		if page.Images != nil && r.known != nil {
			if page.Nearest, err = r.known.set.Thumbnails(ctx, r.worst.nearestRows()); err != nil {
				return err
			}
			for i := range page.Nearest {
				if len(r.worst[i].nearest) == 0 {
					page.Nearest[i] = nil
				}
			}
		}
		if page.Images == nil {
			cells, err := readCells(ctx, input.Set, r.worst.rowNumbers())
			if err != nil {
				return err
			}
			r.worst.mark(cells)
			r.worst.shade(cells)
			page.Columns = addCells(page.Columns, cells)
		}
	}
	return writePage(ctx, f.report, report.Flagged(page))
}

// mark marks the cells that are reasons.
func (w flaggedRows) mark(cells []report.Column) {
	for k := range cells {
		for i, r := range w {
			if slices.ContainsFunc(r.reasons, func(reason schema.Reason) bool { return reason.Column == cells[k].Name }) {
				if cells[k].Marked == nil {
					cells[k].Marked = map[int]bool{}
				}
				cells[k].Marked[i] = true
			}
		}
	}
}

// heatMaps returns the heat map of each row, or nil for a row without one.
func (w flaggedRows) heatMaps() []image.Image {
	list := make([]image.Image, len(w))
	for i, r := range w {
		if r.explanation != nil {
			list[i] = r.explanation.HeatMap
		}
	}
	return list
}

// shade adds to cells which fractions of the scores they explain.
func (w flaggedRows) shade(cells []report.Column) {
	for i, r := range w {
		if r.explanation == nil {
			continue
		}
		texts := 0 // number of the column of texts
		for k, t := range r.explanation.Tensors {
			shares := r.explanation.Shares(k)
			if t.Offsets != nil {
				n := -1
				for j := range cells {
					if cells[j].Text != nil {
						if n++; n == texts {
							cells[j].AddWords(i, t.Offsets, shares, r.explanation.Unknown[k])
						}
					}
				}
				texts++
				continue
			}
			for e, share := range shares {
				for j := range cells {
					if e < len(t.Labels) && cells[j].Name == t.Labels[e] {
						if cells[j].Shares == nil {
							cells[j].Shares = map[int]float64{}
						}
						cells[j].Shares[i] = share
					}
				}
			}
		}
	}
}

// reasonCounts returns the number of flagged rows by their reasons, largest first.
func (r *predictResult) reasonCounts() (list []report.ReasonCount) {
	for reasons, n := range r.byReason {
		list = append(list, report.ReasonCount{Reasons: reasons, Rows: n})
	}
	slices.SortFunc(list, func(a, b report.ReasonCount) int {
		return cmp.Or(b.Rows-a.Rows, cmp.Compare(a.Reasons, b.Reasons))
	})
	return list
}

// addCells adds columns of the input table to the columns of predictions. Texts go before the
// predictions, because people compare the two. Numbers go to the end, because they may be
// many.
func addCells(predictions, cells []report.Column) []report.Column {
	split := slices.IndexFunc(predictions, func(c report.Column) bool { return columnRank(c) == 0 })
	if split < 0 {
		split = len(predictions)
	}
	var texts, numbers []report.Column
	for _, c := range cells {
		if c.Numbers == nil {
			texts = append(texts, c)
		} else {
			numbers = append(numbers, c)
		}
	}
	return slices.Concat(predictions[:split], texts, predictions[split:], numbers)
}

// columnRank returns the sort key of a column. The name of the row comes first, and then the
// reasons why it is flagged.
func columnRank(c report.Column) int {
	return map[string]int{"input": -4, "p_value": -3, "ood_score": -2, "reasons": -1}[c.Name]
}

// nearestRows returns the number of the nearest row of --fitted of each flagged row. A row that
// has none gets row 0.
func (w flaggedRows) nearestRows() []int {
	list := make([]int, len(w))
	for i, r := range w {
		if len(r.nearest) > 0 {
			list[i] = r.nearest[0]
		}
	}
	return list
}

// rowNumbers returns the row numbers of the flagged rows.
func (w flaggedRows) rowNumbers() []int {
	list := make([]int, len(w))
	for i, r := range w {
		list[i] = r.row
	}
	return list
}

// readCells returns cells of the rows if the rows come from a table with column names.
func readCells(ctx context.Context, set *inputs.Set, rows []int) (list []report.Column, err error) {
	columns, err := set.Cells(ctx, rows)
	for _, c := range columns[:min(maxReportColumns, len(columns))] {
		list = append(list, report.Column{Name: c.Name, Numbers: c.Numbers, Text: c.Texts})
	}
	return list, err
}
