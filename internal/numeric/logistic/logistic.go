// Package logistic solves penalised logistic regressions with two classes.
package logistic

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/optimize"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
)

// LogOdds returns x·w + b.
func LogOdds(x []float32, w []float64, b float64) float64 {
	for j, v := range x {
		b += float64(v) * w[j]
	}
	return b
}

// Problem is a logistic regression problem with n rows X. The first rows, whose number is
// Negatives, belong to class 0, and the rest to class 1. The solution w and b minimises (Σ
// ln(1+exp(∓(x·w+b))) + Lambda·½‖w‖²) / n, with + for class 0.
type Problem struct {
	X         blas32.General
	Negatives int
	Lambda    float64
}

// Solve returns the solution w and b.
func (l Problem) Solve(ctx context.Context) (w []float64, b float64, err error) {
	var lastGradient float64
	problem := optimize.Problem{
		Func: func(w []float64) float64 { return l.loss(w, nil) },
		Grad: func(g, w []float64) {
			l.loss(w, g)
			lastGradient = floats.Norm(g, math.Inf(1))
		},
		Status: func() (optimize.Status, error) {
			if err := ctx.Err(); err != nil {
				return optimize.Failure, err
			}
			return optimize.NotTerminated, nil
		},
	}
	settings := &optimize.Settings{GradientThreshold: 1e-9, Converger: &optimize.FunctionConverge{Relative: 1e-15, Iterations: 20}, MajorIterations: 2000}
	result, err := optimize.Minimize(problem, make([]float64, l.X.Cols+1), settings, &optimize.LBFGS{})
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	// Near the minimum, the line search can fail because of rounding.
	if err != nil && !(lastGradient < 1e-5) {
		return nil, 0, err
	}
	return result.X[:l.X.Cols], result.X[l.X.Cols], nil
}

// loss returns the loss and, if g is not nil, writes its gradient to g.
func (l Problem) loss(w, g []float64) float64 {
	h, n := l.X.Cols, float64(l.X.Rows)
	clear(g)
	var sum float64
	for i := range l.X.Rows {
		x := rows.Row(l.X, i)
		z, label := LogOdds(x, w[:h], w[h]), 1.0
		if i < l.Negatives {
			label = 0
		}
		sum += max(z, 0) - label*z + math.Log1p(math.Exp(-math.Abs(z)))
		if g == nil {
			continue
		}
		d := (1/(1+math.Exp(-z)) - label) / n
		for j, v := range x {
			g[j] += d * float64(v)
		}
		g[h] += d
	}
	sum += l.Lambda / 2 * dense.SquaredNorm(w[:h])
	if g != nil {
		floats.AddScaled(g[:h], l.Lambda/n, w[:h])
	}
	return sum / n
}
