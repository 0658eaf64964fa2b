package table3

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// TestRanked checks the first-order approximation of reranked. The spread of approximate
// bootstrap scores must match that of scores computed after new ranking. Their mean must
// match the score of the whole sample.
func TestRanked(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	const n = 400
	x, y := make([]float64, n), make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
		y[i] = x[i]*x[i] + x[i] + .5*rng.NormFloat64()
	}
	scores := [2][]float64{normalScores(x, rng), normalScores(y, rng)}
	// These two networks have one hidden layer, like the trained ones.
	var networks [2]train.Network
	for d, w := range [][]float32{{1.2, -.7, .1, .12}, {.6, .2, -.1, .1}} {
		networks[d].Layers = []train.Layer{
			{W: blas32.General{Rows: 2, Cols: 3, Stride: 3, Data: []float32{1, -1, 0, 0, 0, 1}}, B: []float32{0, .2, 6}},
			{W: blas32.General{Rows: 3, Cols: 1, Stride: 1, Data: w[:3]}, B: []float32{-w[3] * 6}},
		}
	}
	pool, allRows := pools()[2], experiment.Indices(n)
	scoreOf := func(x, y []float64) pairScore {
		s := newPairScore(n)
		for d, sign := range []float64{-1, 1} {
			s.add(testHalf{reverse: d == 1, test: allRows}, sign/n, lossesByRow(networks[d], pool, x, y))
			x, y = y, x
		}
		return s
	}
	s := scoreOf(scores[0], scores[1])
	contributions := s.reranked(scores)
	var approximate, exact []float64
	for range 400 {
		rows := make([]int, n)
		var sum float64
		for i := range rows {
			rows[i] = rng.IntN(n)
			sum += contributions[rows[i]]
		}
		approximate = append(approximate, sum)
		exact = append(exact, scoreOf(normalScores(selectValues(x, rows), rng), normalScores(selectValues(y, rows), rng)).score)
	}
	if got, want := stat.StdDev(approximate, nil), stat.StdDev(exact, nil); math.Abs(got/want-1) > .2 {
		t.Errorf("scores spread by %v, want %v", got, want)
	}
	if got, want := stat.Mean(approximate, nil), s.score; math.Abs(got-want) > .2*stat.StdDev(exact, nil) {
		t.Errorf("the mean of scores drawn anew is %v, want %v", got, want)
	}
}
