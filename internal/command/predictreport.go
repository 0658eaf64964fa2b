package command

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"path/filepath"
	"slices"
	"unique"

	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/explain"
	"github.com/attach-uncertainty/attach/internal/report"
	"github.com/attach-uncertainty/attach/schema"
)

const (
	// maxReportRows is the number of rows in a report if more rows are flagged than
	// maxCompleteRows. Otherwise the report shows all flagged rows.
	maxReportRows   = 200
	maxCompleteRows = 250
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

// describe returns what a report says of each flagged row.
func (r *flaggedRow) describe() report.FlaggedRow {
	// Many rows have equal texts, so that it pays to keep each text once.
	d := report.FlaggedRow{Position: r.row, Reasons: unique.Make(schema.Group(r.reasons)).Value()}
	if r.explanation != nil {
		d.Explained, d.Top = true, unique.Make(r.explanation.Leading()).Value()
	}
	return d
}

// add keeps a flagged row if its score is among the maxCompleteRows highest. It copies fields,
// because the caller reuses them.
func (w *flaggedRows) add(row flaggedRow) {
	index, _ := slices.BinarySearchFunc(*w, row.score, func(r flaggedRow, score float64) int {
		if r.score >= score { // among equal scores, the earlier row comes first
			return -1
		}
		return 1
	})
	if index == maxCompleteRows {
		return
	}
	row.fields = slices.Clone(row.fields)
	*w = slices.Insert(*w, index, row)
	*w = (*w)[:min(maxCompleteRows, len(*w))]
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
		case bool, samples, matrix: // left out, because all rows are flagged and the others are too many
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
	if r.flagged > maxCompleteRows {
		r.worst = r.worst[:maxReportRows]
	}
	if r.explainer != nil && input.Set != nil {
		p := newProgress(r.stderr, "explain")
		err := r.explainer.explainMissing(ctx, input.Set, r.worst, f.explainRows, p)
		p.end()
		if err != nil {
			return err
		}
		for _, row := range r.worst {
			k, _ := slices.BinarySearchFunc(r.allFlagged, row.row, func(d report.FlaggedRow, row int) int { return d.Position - row })
			r.allFlagged[k] = row.describe()
		}
	}
	page := report.Flags{
		Bundle: filepath.Base(f.path), Rows: filepath.Base(f.x),
		Summary:   r.plainSummary(),
		PValues:   evaluate.Histogram{Counts: r.pValues[:], Expected: r.expectedPValues()},
		Guarantee: fmt.Sprintf("Of rows that are exchangeable with the %s calibration rows, at most %s are flagged on average. A p-value is the fraction of calibration rows that look at least as unusual.", display.Count(c.NCal), display.GivenPercent(r.alpha())),
		Total:     r.rows, Flagged: r.allFlagged, Expected: r.expectedFlags(),
		RowName: func(row int) string { return fmt.Sprint(input.Name(row)) },
		Columns: r.worst.columns(),
		Others:  "`attach predict` with -o FILE writes all rows; the column flag is true for flagged rows.",
	}
	if f.out != "-" {
		page.Others = "The column flag of " + filepath.Base(f.out) + " marks all of them."
	}
	if r.reasons {
		for _, c := range r.summary.NotableColumns() {
			page.Changes = append(page.Changes, c.String())
		}
		page.Changes = page.Changes[:min(maxNotedColumns, len(page.Changes))]
	}
	if o.FlagByClass {
		page.Guarantee += " Both refer to the calibration rows of the same predicted class."
	}
	fact := func(value, label string) { page.Facts = append(page.Facts, report.Fact{Value: value, Label: label}) }
	fact(fmt.Sprintf("%s of %s", display.Count(r.flagged), display.Count(r.rows)), "rows flagged")
	if r.canFlag() {
		fact(describeExpected(page.Expected), "expected by chance")
	}
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

// plainSummary returns sentences about the number of flagged rows for a reader who does not
// know the terms of the field, without the last full stop.
func (r *predictResult) plainSummary() string {
	if !r.canFlag() {
		return describeUnflaggable(r.bundle, r.options)
	}
	look := "look"
	if r.flagged == 1 {
		look = "looks"
	}
	return fmt.Sprintf("%s of %s %s unlike the rows that %s was fitted on. If all rows were like those, %s would be flagged by chance, because the false-alarm rate alpha is %g",
		display.Count(r.flagged), rows.Count(r.rows, "row"), look, filepath.Base(r.flags.path), describeExpected(r.expectedFlags()), r.alpha())
}

// maxLeadingCells is the largest number of columns of the table right after the reasons.
const maxLeadingCells = 3

// addCells adds columns of the input table to the columns of predictions. The columns that are
// most often unusual or that raised the scores most follow the reasons, so that they are seen
// on a narrow screen. Of the others, texts go before the predictions, because people compare
// the two. Numbers go to the end, because they may be many.
func addCells(predictions, cells []report.Column) []report.Column {
	weight := func(c report.Column) float64 {
		w := float64(len(c.Marked))
		for _, share := range c.Shares {
			w += share
		}
		return w
	}
	leading := slices.Clone(cells)
	slices.SortStableFunc(leading, func(a, b report.Column) int { return cmp.Compare(weight(b), weight(a)) })
	leading = slices.DeleteFunc(leading[:min(maxLeadingCells, len(leading))], func(c report.Column) bool { return weight(c) == 0 })
	var texts, numbers []report.Column
	for _, c := range cells {
		switch {
		case slices.ContainsFunc(leading, func(other report.Column) bool { return other.Name == c.Name }):
		case len(leading)+len(texts)+len(numbers) == maxReportColumns:
		case c.Numbers == nil:
			texts = append(texts, c)
		default:
			numbers = append(numbers, c)
		}
	}
	before := func(rank int) int { // the number of predictions before this rank
		return len(slices.DeleteFunc(slices.Clone(predictions), func(c report.Column) bool { return columnRank(c) >= rank }))
	}
	first, second := before(columnRank(report.Column{Name: "p_value"})), before(0)
	return slices.Concat(predictions[:first], leading, predictions[first:second], texts, predictions[second:], numbers)
}

// columnRank returns the sort key of a column. The name of the row comes first, and then the
// reasons why it is flagged.
func columnRank(c report.Column) int {
	return map[string]int{"input": -5, "id": -4, "reasons": -3, "p_value": -2, "ood_score": -1}[c.Name]
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
	for _, c := range columns {
		list = append(list, report.Column{Name: c.Name, Numbers: c.Numbers, Text: c.Texts})
	}
	return list, err
}
