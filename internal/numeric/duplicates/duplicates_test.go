package duplicates_test

import (
	"context"
	"math"
	"math/rand/v2"
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

// TestDense checks that few independent rows of a dense cluster count as copies, and that
// slightly disturbed copies are found there.
func TestDense(t *testing.T) {
	const dense = 20 // how much closer the rows of the cluster are
	scatter := func(n int, seed uint64) blas32.General {
		x := random(n, 8, 8, seed)
		for i := 0; i < n; i += 5 {
			for j := range rows.Row(x, i) {
				rows.Row(x, i)[j] /= dense
			}
		}
		return x
	}
	known, others := scatter(2000, 5), scatter(10_000, 6)
	r := reference(t, known)
	near, err := r.Like(context.Background(), others)
	if err != nil {
		t.Fatal(err)
	}
	chance := 0
	for i := 0; i < others.Rows; i += 5 {
		if near[i] >= 0 {
			chance++
		}
	}
	if chance > 8 {
		t.Errorf("%d of %d rows of the cluster are like another by chance", chance, others.Rows/5)
	}
	copies, rng := rows.New(400, 8), rand.New(rand.NewPCG(7, 7))
	for i := range copies.Rows {
		for j, v := range rows.Row(known, 5*i) {
			rows.Row(copies, i)[j] = v + float32(1e-3/dense*math.Pow(10, float64(j%5)-2)*rng.NormFloat64())
		}
	}
	if near, err = r.Like(context.Background(), copies); err != nil {
		t.Fatal(err)
	}
	found := 0
	for i, k := range near {
		if k == 5*i {
			found++
		}
	}
	if found < 380 {
		t.Errorf("%d of 400 copies in the cluster are found", found)
	}
}

// TestNotFinite checks that rows that are not finite have no copies.
func TestNotFinite(t *testing.T) {
	known, x := random(300, 20, 20, 4), rows.New(2, 20)
	copy(x.Data, known.Data[:40])
	rows.Row(x, 0)[2] = float32(math.NaN())
	rows.Row(known, 1)[2], rows.Row(x, 1)[2] = float32(math.Inf(1)), float32(math.Inf(1))
	if matches, err := reference(t, known).Like(context.Background(), x); err != nil || matches[0] >= 0 || matches[1] >= 0 {
		t.Errorf("%v, %v", matches, err)
	}
}

// TestFewValues checks that rows between those of a grid of few values are no copies. It also
// checks that exact copies are found among few or equal rows.
func TestFewValues(t *testing.T) {
	grid, between := rows.New(400, 2), rows.New(400, 2)
	for i := range grid.Rows {
		rows.Row(grid, i)[0], rows.Row(grid, i)[1] = float32(i/20), float32(i%20)
		rows.Row(between, i)[0], rows.Row(between, i)[1] = float32(i/20)+.5, float32(i%20)+.5
	}
	same := rows.New(700, 2)
	few := rows.Slice(grid, 0, 5)
	for _, c := range []struct {
		name  string
		known blas32.General
		x     blas32.General
		want  bool
	}{{"grid", grid, between, false}, {"few", few, between, false}, {"nothing", rows.New(0, 2), grid, false}, {"copies", same, same, true}, {"copies of few", few, same, true}} {
		matches, err := reference(t, c.known).Like(context.Background(), c.x)
		for i, k := range matches {
			if err != nil || (k >= 0) != c.want {
				t.Fatalf("%s: row %d is like %d, %v", c.name, i, k, err)
			}
		}
	}
}
