package ood

import "context"

// GridScorer is implemented by scorers that FitGrid returned where scoring a
// batch with several of them at once costs less than one by one.
type GridScorer interface {
	// ScoreGrid scores b with each of grid, which are scorers that one call
	// of FitGrid returned; the receiver is one of them.
	ScoreGrid(ctx context.Context, grid []Scorer, b Batch) ([][]float64, error)
}
