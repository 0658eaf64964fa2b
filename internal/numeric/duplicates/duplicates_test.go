package duplicates_test

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/duplicates"
)

// random returns n rows of h normal columns with different scales. The rows vary in only some
// directions.
func random(n, h, directions int, seed uint64) blas32.General {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := rows.New(n, h)
	for i := range n {
		z := make([]float64, directions)
		for k := range z {
			z[k] = rng.NormFloat64()
		}
		for j := range h {
			v := z[j%directions] + float64(j/directions)*z[(j+1)%directions]
			rows.Row(x, i)[j] = float32((v + 3) * math.Pow(10, float64(j%5)-2))
		}
	}
	return x
}

func reference(t *testing.T, x blas32.General) *duplicates.Reference {
	t.Helper()
	r, err := duplicates.New(context.Background(), x)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestChance checks that few independent rows count as copies, in any number of dimensions,
// and that slightly disturbed copies are found.
func TestChance(t *testing.T) {
	for _, c := range []struct {
		columns, directions int
		disturbed           float64 // standard deviation of the disturbance, as a fraction of the column's scale
	}{{1, 1, 0}, {8, 2, 1e-6}, {4, 4, 1e-4}, {12, 6, 1e-3}, {64, 12, 1e-2}, {64, 64, 1e-2}} {
		fitted, others := random(1500, c.columns, c.directions, 1), random(2000, c.columns, c.directions, 2)
		r := reference(t, fitted)
		matches, err := r.Like(context.Background(), others)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, k := range matches {
			if k >= 0 {
				n++
			}
		}
		if float64(n) > 2*duplicates.Chance*float64(len(matches)) {
			t.Errorf("%+v: %d of %d rows are like another by chance", c, n, len(matches))
		}
		rng := rand.New(rand.NewPCG(3, 3))
		copies := rows.New(300, c.columns)
		for i := range copies.Rows {
			for j, v := range rows.Row(fitted, 5*i) {
				size := math.Pow(10, float64(j%5)-2)
				rows.Row(copies, i)[j] = v + float32(c.disturbed*size*rng.NormFloat64())
			}
		}
		if matches, err = r.Like(context.Background(), copies); err != nil {
			t.Fatal(err)
		}
		n = 0
		for i, k := range matches {
			if k == 5*i {
				n++
			}
		}
		if n < 270 {
			t.Errorf("%+v: %d of 300 copies are found", c, n)
		}
	}
}

// TestGroups checks that Groups finds copies that are planted among different rows. Rows
// that are not finite must have no copies.
func TestGroups(t *testing.T) {
	x := random(1300, 20, 20, 3)
	row := func(i int) []float32 { return rows.Row(x, i) }
	r := reference(t, random(300, 20, 20, 4))
	for _, copyRow := range []int{600, 1290} {
		for j, v := range row(7) {
			row(copyRow)[j] = v * (1 + 1e-4*float32(j%3))
		}
	}
	copy(row(513), row(512))
	for _, i := range []int{30, 31} {
		row(40 + i)[2] = float32(math.NaN())
		for j := range row(50 + i) {
			row(50 + i)[j] = float32(math.Inf(1))
		}
	}
	want := [][]int{{7, 600, 1290}, {512, 513}}
	if got, err := r.Groups(context.Background(), x, always); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v, %v", got, want, err)
	}
	matches, err := r.Like(context.Background(), rows.Slice(x, 70, 82))
	for _, k := range matches {
		if err != nil || k >= 0 {
			t.Errorf("%v, %v", matches, err)
		}
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Groups(done, x, always); err == nil {
		t.Error("a search that is cancelled is no error")
	}
	if got, err := r.Groups(context.Background(), rows.New(0, 20), always); err != nil || got != nil {
		t.Errorf("of no rows: %v, %v", got, err)
	}
}

func always(int, int) bool { return true }

// TestGroupsAreConfirmed checks that rows are copies only if same confirms the pair. It also
// checks that members of a group are copies of its first row, not of each other.
func TestGroupsAreConfirmed(t *testing.T) {
	r := reference(t, random(300, 20, 20, 4))
	original := random(1, 20, 20, 3)
	x := rows.New(6, 20)
	for i := range x.Rows {
		copy(rows.Row(x, i), original.Data)
		rows.Row(x, i)[2] += float32(i) * .6 * float32(r.Near()) // the scale of column 2 is about 1, so each row is near only to the rows next to it
	}
	got, err := r.Groups(context.Background(), x, always)
	if want := [][]int{{0, 1}, {2, 3}, {4, 5}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("a chain: %v, want %v, %v", got, want, err)
	}
	got, err = r.Groups(context.Background(), x, func(i, j int) bool { return i >= 4 && j >= 4 })
	if want := [][]int{{4, 5}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("confirmed: %v, want %v, %v", got, want, err)
	}
}

// TestFewValues checks that neighbours on a grid of few values are not copies. It also checks
// that exact copies are found among few or equal rows.
func TestFewValues(t *testing.T) {
	grid := rows.New(400, 2)
	for i := range grid.Rows {
		rows.Row(grid, i)[0], rows.Row(grid, i)[1] = float32(i/20), float32(i%20)
	}
	same := rows.New(700, 2)
	few := rows.Slice(grid, 0, 5)
	for _, c := range []struct {
		name  string
		known blas32.General
		x     blas32.General
		want  int
	}{{"grid", grid, grid, 0}, {"few", few, grid, 0}, {"nothing", rows.New(0, 2), grid, 0}, {"copies", same, same, 1}, {"copies of few", few, same, 1}} {
		got, err := reference(t, c.known).Groups(context.Background(), c.x, always)
		if err != nil || len(got) != c.want || c.want == 1 && len(got[0]) != c.x.Rows {
			t.Errorf("%s: %d groups, want %d, %v", c.name, len(got), c.want, err)
		}
	}
}
