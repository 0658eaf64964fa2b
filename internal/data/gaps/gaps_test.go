package gaps

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// marks returns rows with the given number of columns; each argument lists the empty columns
// of a row.
func marks(columns int, rowsOf ...[]int) blas32.General {
	m := rows.New(len(rowsOf), columns)
	for i, empty := range rowsOf {
		for _, j := range empty {
			rows.Row(m, i)[j] = 1
		}
	}
	return m
}

// TestLearn uses 1,000 rows: 20 lack column 0, one of these also column 1, and 500 lack column
// 2 or column 3, but never both.
func TestLearn(t *testing.T) {
	all := make([][]int, 1000)
	for i := range all {
		all[i] = []int{2 + i%2}
		if i%50 == 0 {
			all[i] = append(all[i], 0)
		}
	}
	all[0] = append(all[0], 1)
	p, likely := Learn(marks(5, all...), blas32.General{}, 0.005)
	if want := 2 * 4. / 1001; likely != want {
		t.Errorf("a row is unseen with probability %v, want %v", likely, want)
	}
	// Three rows may exceed each limit. One exceeds log 1001/20 because of column 1. The 17
	// others with column 0 are equally rare.
	if want := math.Log(1001. / 20); math.Abs(p.Rarest-want) > 1e-12 {
		t.Errorf("the rarest cell has surprise %v, want %v", p.Rarest, want)
	}
	if want := math.Log(1001./20) + math.Log(1001./500); math.Abs(p.Together-want) > 1e-12 {
		t.Errorf("cells together have surprise %v, want %v", p.Together, want)
	}
	rows := marks(5, nil, []int{2}, []int{0}, []int{0, 2}, []int{1}, []int{4}, []int{0, 2, 3}, []int{2, 3})
	if got, want := p.Unseen(rows), []bool{false, false, false, false, true, true, true, false}; !slices.Equal(got, want) {
		t.Errorf("unseen are %v, want %v", got, want)
	}
	if got := p.Unseen(marks(5, nil, []int{2})); got != nil {
		t.Errorf("of rows without odd gaps %v are unseen", got)
	}
}

// TestUnusual compares with SciPy's fisher_exact: p is 0.00117 for 9 of 100 rows against 12 of
// 600, and 0.00034 for 10. With 9 columns the limit is 0.00111.
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
