package oneclass

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// TestConditionsOfOptimality checks the optimality conditions. Rows with coefficient 0 must
// lie inside the boundary, rows with coefficient 1 outside, and other rows on the boundary.
func TestConditionsOfOptimality(t *testing.T) {
	const n, nu, tolerance = 700, .2, 1e-4
	r := rand.New(rand.NewPCG(5, 6))
	x := rows.New(n, 3)
	for i := range x.Data {
		x.Data[i] = float32(7 + r.NormFloat64())
	}
	k := NewKernel(x, .5)
	alpha, rho, err := Solve(t.Context(), k, nu, tolerance, func(float64) {})
	if err != nil {
		t.Fatal(err)
	}
	if sum := floats.Sum(alpha); math.Abs(sum-nu*n) > 1e-6 {
		t.Errorf("coefficients sum to %v, want %v", sum, nu*n)
	}
	sums := make([]float64, n)
	k.Sums(sums, x, alpha)
	for i, a := range alpha {
		inside := sums[i] - rho
		if a < 0 || a > 1 || a == 0 && inside < -tolerance || a == 1 && inside > tolerance || a > 0 && a < 1 && math.Abs(inside) > tolerance {
			t.Errorf("row %d, of coefficient %v, is inside by %v", i, a, inside)
		}
	}
}

func TestKernel(t *testing.T) {
	x := rows.New(600, 2)
	for i := range x.Data {
		x.Data[i] = float32(i%7) / 3
	}
	m, err := NewKernel(x, .3).matrix(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Rows {
		for j, v := range rows.Row(m, i) {
			a, b := rows.Row(x, i), rows.Row(x, j)
			d := math.Hypot(float64(a[0]-b[0]), float64(a[1]-b[1]))
			if want := math.Exp(-.3 * d * d); math.Abs(float64(v)-want) > 1e-6 {
				t.Fatalf("kernel of rows %d and %d is %v, want %v", i, j, v, want)
			}
		}
	}
}
