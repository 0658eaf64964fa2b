package logistic

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// TestSolveFindsMinimum checks that the loss increases if the solution is moved along any
// axis.
func TestSolveFindsMinimum(t *testing.T) {
	const n, h, negatives, lambda = 200, 3, 80, .5
	r := rand.New(rand.NewPCG(7, 8))
	x := rows.New(n, h)
	for i := range x.Data {
		x.Data[i] = float32(r.NormFloat64())
		if i/h >= negatives {
			x.Data[i]++
		}
	}
	w, b, err := Problem{x, negatives, lambda}.Solve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	loss := func(p []float64) float64 {
		var sum, square float64
		for i := range n {
			sign := 1.
			if i >= negatives {
				sign = -1
			}
			sum += math.Log1p(math.Exp(sign * LogOdds(rows.Row(x, i), p[:h], p[h])))
		}
		for _, v := range p[:h] {
			square += v * v
		}
		return sum + lambda/2*square
	}
	best := append(w[:h:h], b)
	for j := range best {
		for _, step := range []float64{-1e-3, 1e-3} {
			moved := append([]float64(nil), best...)
			moved[j] += step
			if loss(moved) <= loss(best) {
				t.Errorf("the loss does not increase by a step of %v along axis %d", step, j)
			}
		}
	}
}
