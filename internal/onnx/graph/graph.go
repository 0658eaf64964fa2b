// Package graph writes the computations of fitted methods as nodes of an ONNX graph. It uses
// only standard operators, which every runtime has.
//
// A fitted method that supports graphs has one more method beside Score or Quantiles, in the
// same file, which does the same computation with tensors. Expensive products have the same
// precision as in Go, mostly float32. Cheap operations, such as sums, are in float64.
package graph

import (
	"fmt"

	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
)

// Batch holds the tensors for n rows. Missing parts are zero values.
type Batch struct {
	Features Tensor // n×h, float32
	Logits   Tensor // n×c, float32
	Layers   []Tensor
	Gaps     Tensor // n×k, float32: 1 if a cell is empty, 0 if not
}

// Part returns the part with the given name.
func (b Batch) Part(name string) Tensor {
	switch name {
	case "features":
		return b.Features
	case "logits":
		return b.Logits
	case "gaps":
		return b.Gaps
	}
	for i, l := range b.Layers {
		if batchparts.Layer(i) == name {
			return l
		}
	}
	return Tensor{}
}

// Set sets the part with the given name. Layers must be set in order.
func (b *Batch) Set(name string, x Tensor) {
	switch name {
	case "features":
		b.Features = x
	case "logits":
		b.Logits = x
	case "gaps":
		b.Gaps = x
	default:
		b.Layers = append(b.Layers, x)
	}
}

// Detector is a fitted detector that can write its score as nodes.
type Detector interface {
	// ScoreGraph returns the scores, n×1, equal to those of Score. Rows with NaN or infinities
	// may have any score. If a fitted method has no graph, the error is a *Refusal with the
	// reason.
	ScoreGraph(b Batch) (Tensor, error)
}

// QuantileRegressor is a fitted interval model that can write its quantiles as nodes.
type QuantileRegressor interface {
	// QuantilesGraph returns quantiles at levels, n×targets×levels, equal to those of Quantiles
	// for the rows of x.
	QuantilesGraph(x Tensor, levels []float64) (Tensor, error)
}

// Refusal is the reason why a fitted method cannot be written as a graph.
type Refusal struct{ Why string }

func (e *Refusal) Error() string { return e.Why }

// Refuse returns a formatted Refusal.
func Refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// NaNPropagator is an optional interface of a Detector. If PropagatesNaN returns true, rows
// that contain NaN or infinities score NaN or +Inf.
type NaNPropagator interface {
	PropagatesNaN() bool
}

// PropagatesNaN reports whether a fitted detector implements NaNPropagator and propagates
// NaN and infinities.
func PropagatesNaN(fitted any) bool {
	c, ok := fitted.(NaNPropagator)
	return ok && c.PropagatesNaN()
}

// Score writes the score of a fitted detector for the rows of b. All parts must belong to the
// same graph. Rows with NaN or infinities score NaN or +Inf.
func Score(fitted any, b Batch) (Tensor, error) {
	score, err := Unguarded(fitted, b)
	if err != nil {
		return Tensor{}, err
	}
	score = score.Double()
	if PropagatesNaN(fitted) {
		return score, nil
	}
	for _, part := range append([]Tensor{b.Features, b.Logits}, b.Layers...) {
		if part.name != "" {
			score = score.PropagateNaN(part)
		}
	}
	return score, nil
}

// Unguarded does what Score does, but rows with NaN or infinities may have any score.
func Unguarded(fitted any, b Batch) (Tensor, error) {
	if d, ok := fitted.(Detector); ok {
		return d.ScoreGraph(b)
	}
	return Tensor{}, errNoGraph
}

// Quantiles writes the quantiles of a fitted interval model. Rows with NaN or infinities have
// quantiles NaN.
func Quantiles(fitted any, x Tensor, levels []float64) (Tensor, error) {
	q, ok := fitted.(QuantileRegressor)
	if !ok {
		return Tensor{}, errNoGraph
	}
	all, err := q.QuantilesGraph(x, levels)
	if err != nil {
		return Tensor{}, err
	}
	return all.Add(x.Mul(0.).Sum().Reshape(0, 1, 1)), nil
}

var errNoGraph = &Refusal{"it cannot be written as a graph of ONNX operators"}

// MostBank limits the training rows in a graph, in bytes, to a size that model files and
// browsers handle well.
const MostBank = 256 << 20

// CheckBank returns an error if n rows of h numbers, each bytes per number, exceed MostBank.
func CheckBank(n, h, bytesPerNumber int) error {
	size := bytesPerNumber * n * h
	if size <= MostBank {
		return nil
	}
	return Refuse("it compares with %d stored rows of %d features, %d MB, but a graph can store at most %d MB: fit it on fewer rows", n, h, size>>20, MostBank>>20)
}
