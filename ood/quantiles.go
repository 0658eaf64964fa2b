package ood

import (
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
)

// QuantileRegressor is a fitted model that predicts quantiles of one or several targets. It is
// safe for concurrent use.
type QuantileRegressor interface {
	// Quantiles predicts the quantiles at the given levels, each in (0,1), for the rows of x,
	// which is n×h for n rows of h features. Quantiles of a row increase with the level. They
	// depend neither on the other levels nor on other rows.
	Quantiles(x blas32.General, levels []float64) Quantiles
}

// Quantiles holds predicted quantiles of several targets at several levels, in units of the
// targets.
type Quantiles struct {
	Rows, Targets int
	Levels        []float64
	Data          []float32 // rows × targets × levels
}

// NewQuantiles returns quantiles that are all 0.
func NewQuantiles(rows, targets int, levels []float64) Quantiles {
	return Quantiles{Rows: rows, Targets: targets, Levels: slices.Clone(levels), Data: make([]float32, rows*targets*len(levels))}
}

// Row returns the quantiles of row i and target t, one for each level. It shares memory with
// q.
func (q Quantiles) Row(i, t int) []float32 {
	n := len(q.Levels)
	at := (i*q.Targets + t) * n
	return q.Data[at : at+n : at+n]
}
