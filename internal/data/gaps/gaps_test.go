package gaps

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// emptyCells returns a matrix with one row for each list. A list contains the empty columns
// of its row, which are set to 1.
func emptyCells(columns int, emptyColumns ...[]int) blas32.General {
	m := rows.New(len(emptyColumns), columns)
	for i, columnsOfRow := range emptyColumns {
		for _, j := range columnsOfRow {
			rows.Row(m, i)[j] = 1
		}
	}
	return m
}

// TestLearn checks limits learned from 1,000 rows. Column 0 is empty in 20 rows, and column
// 1 in one of these. Column 2 is empty in 500 rows, and column 3 in the other 500.
func TestLearn(t *testing.T) {
	emptyColumns := make([][]int, 1000)
	for i := range emptyColumns {
		emptyColumns[i] = []int{2 + i%2}
		if i%50 == 0 {
			emptyColumns[i] = append(emptyColumns[i], 0)
		}
	}
	emptyColumns[0] = append(emptyColumns[0], 1)
	p, probability := Learn(emptyCells(5, emptyColumns...), blas32.General{}, 0.005)
	if want := 2 * 4. / 1001; probability != want {
		t.Errorf("a row is unseen with probability %v, want %v", probability, want)
	}
	// Up to three rows may exceed each limit. Row 0 exceeds log(1001/20) because its column
	// 1 is empty. The other 19 rows with an empty column 0 have exactly this surprise.
	if want := math.Log(1001. / 20); math.Abs(p.Rarest-want) > 1e-12 {
		t.Errorf("the rarest cell has surprise %v, want %v", p.Rarest, want)
	}
	if want := math.Log(1001./20) + math.Log(1001./500); math.Abs(p.Together-want) > 1e-12 {
		t.Errorf("cells together have surprise %v, want %v", p.Together, want)
	}
	rows := emptyCells(5, nil, []int{2}, []int{0}, []int{0, 2}, []int{1}, []int{4}, []int{0, 2, 3}, []int{2, 3})
	if got, want := p.Unseen(rows), []bool{false, false, false, false, true, true, true, false}; !slices.Equal(got, want) {
		t.Errorf("unseen are %v, want %v", got, want)
	}
	if got := p.Unseen(emptyCells(5, nil, []int{2})); got != nil {
		t.Errorf("of rows without odd gaps %v are unseen", got)
	}
}

// TestUnusual checks decisions against SciPy's fisher_exact. If a column is empty in 12 of
// 600 reference rows, p is 0.00117 if it is empty in 9 of 100 new rows, and 0.00034 if it
// is empty in 10. The limit for 9 columns is 0.01/9 = 0.00111.
func TestUnusual(t *testing.T) {
	for _, c := range []struct {
		empty, reference int
		want             bool
	}{{9, 12, false}, {10, 12, true}, {1, 0, true}, {0, 0, false}, {100, 600, false}} {
		if got := Unusual(c.empty, 100, c.reference, 600, 9); got != c.want {
			t.Errorf("%d empty cells of 100 beside %d of 600: %v", c.empty, c.reference, got)
		}
	}
}
