package command

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach"
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
		w.add(flaggedRow{row: row, score: p.Score, fields: fields}, p.Flag)
		if p.Flag {
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
	if len(w) != maxReportRows || w[0].row != 2000 {
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
			{"ood_score", number{x: math.Inf(1)}}, {"p_value", number{x: .25}}, {"flag", true},
		}}, true)
	}
	c := w.columns()
	var names []string
	for _, column := range c {
		names = append(names, column.Name)
	}
	if want := []string{"input", "p_value", "ood_score", "class", "set", "prediction_0", "prediction_1"}; !slices.Equal(names, want) {
		t.Errorf("columns %v, want %v", names, want)
	}
	if !slices.Equal(c[6].Numbers, []float64{2, 3}) || !slices.Equal(c[3].Text, []string{"cat", "4"}) || !slices.Equal(c[4].Text, []string{"3 4", "3 4"}) || c[0].Numbers != nil {
		t.Errorf("columns %v", c)
	}
}
