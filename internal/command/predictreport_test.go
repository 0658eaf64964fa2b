package command

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/report"
)

// TestWorst checks that the flagged rows with the highest scores are kept in order. Among
// rows with equal scores, the first ones are kept.
func TestWorst(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var w flaggedRows
	var all []flaggedRow
	fields := make([]field, 1)
	for row := range 3000 {
		p := attach.Prediction{Score: float64(rng.IntN(400)), Flag: rng.IntN(3) > 0}
		if row == 2000 {
			p.Score, p.Flag = math.Inf(1), true
		}
		fields[0] = field{"input", row}
		if p.Flag {
			w.add(flaggedRow{row: row, score: p.Score, fields: fields})
			all = append(all, flaggedRow{row: row, score: p.Score})
		}
	}
	slices.SortStableFunc(all, func(a, b flaggedRow) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	if len(w) != maxCompleteRows || w[0].row != 2000 {
		t.Fatalf("%d rows, the first of them %d", len(w), w[0].row)
	}
	for i, r := range w {
		if r.row != all[i].row || r.fields[0].value != r.row {
			t.Fatalf("row %d is %v, want %v", i, r, all[i])
		}
	}
}

// TestWorstColumns checks the columns of a report. The reason for the flag follows the name
// of the row. Classes have their names if known. Each target has a column, and samples have
// none.
func TestWorstColumns(t *testing.T) {
	var w flaggedRows
	for row := range 2 {
		w.add(flaggedRow{row: row, score: float64(-row), fields: []field{
			{"input", []any{"a.png", 7}[row]}, {"class", row + 3}, {"class_name", []string{"cat", ""}[row]}, {"set", []int{3, 4}}, {"set_size", 2}, {"prediction", []number{{x: 1}, {x: 2 + float64(row)}}}, {"samples", samples{{{x: 1}}}},
			{"ood_score", number{x: math.Inf(1)}}, {"p_value", number{x: .25}}, {"flag", true}, {"reasons", []string{"odd"}},
		}})
	}
	c := w.columns()
	var names []string
	for _, column := range c {
		names = append(names, column.Name)
	}
	if want := []string{"input", "reasons", "p_value", "ood_score", "class", "set", "prediction_0", "prediction_1"}; !slices.Equal(names, want) {
		t.Errorf("columns %v, want %v", names, want)
	}
	if !slices.Equal(c[7].Numbers, []float64{2, 3}) || !slices.Equal(c[4].Text, []string{"cat", "4"}) || !slices.Equal(c[5].Text, []string{"3 4", "3 4"}) || c[0].Numbers != nil {
		t.Errorf("columns %v", c)
	}
}

// TestAddCells checks that the columns which are most often unusual, or raised the scores most,
// follow the reasons, whatever their place in the table. Texts precede other predictions, and
// other numbers follow them, up to the largest number of columns.
func TestAddCells(t *testing.T) {
	predictions := []report.Column{{Name: "input"}, {Name: "reasons"}, {Name: "p_value"}, {Name: "ood_score"}, {Name: "prediction"}}
	cells := []report.Column{{Name: "note", Text: []string{"", ""}}}
	for i := range 40 {
		cells = append(cells, report.Column{Name: fmt.Sprint("c", i), Numbers: []float64{1, 2}})
	}
	cells[6].Shares = map[int]float64{0: .2}
	cells[21].Shares = map[int]float64{0: .4, 1: .5}
	cells[31].Marked = map[int]bool{1: true}
	cells[40].Marked = map[int]bool{0: true, 1: true}
	var names []string
	for _, c := range addCells(predictions, cells) {
		names = append(names, c.Name)
	}
	want := []string{"input", "reasons", "c39", "c30", "c20", "p_value", "ood_score", "note", "prediction", "c0", "c1", "c2", "c3", "c4", "c5"}
	if len(names) != len(predictions)+maxReportColumns || !slices.Equal(names[:len(want)], want) {
		t.Errorf("%d columns %v, want %v", len(names), names, want)
	}
}
