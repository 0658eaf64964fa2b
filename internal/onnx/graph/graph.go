// Package graph writes the computations of fitted methods as nodes of an ONNX graph. It
// uses only operators of ONNX, because every runtime implements them.
//
// A fitted method supports graphs if it implements Detector or QuantileRegressor.
// ScoreGraph and QuantilesGraph compute with tensors what Score and Quantiles compute in
// Go. Expensive products have the precision that they have in Go, mostly float32. Cheap
// operations, such as sums, are in float64.
package graph

import (
	"fmt"

	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
)

// Batch holds the tensors of the model's parts for n rows. A missing part is the zero
// Tensor.
type Batch struct {
	Features Tensor // n×h for h features, float32
	Logits   Tensor // n×c for c classes, float32
	Layers   []Tensor
	Gaps     Tensor // n×k for k table cells in a row, float32: 1 if a cell is empty, 0 otherwise
}

// Part returns the tensor of the part with the given name, or the zero Tensor.
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

// Set sets the tensor of the part with the given name. Callers must set layers in order,
// because Set appends them.
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
	// ScoreGraph returns a tensor n×1 with the scores that Score computes. Rows with NaN or
	// infinities may have any score. If the fitted method has no graph, the error is a
	// *Refusal with the reason.
	ScoreGraph(b Batch) (Tensor, error)
}

// QuantileRegressor is a fitted interval model that can write its quantiles as nodes.
type QuantileRegressor interface {
	// QuantilesGraph returns a tensor n×targets×levels with the quantiles that Quantiles
	// computes for the n rows of x.
	QuantilesGraph(x Tensor, levels []float64) (Tensor, error)
}

// Refusal is an error with the reason why a fitted method cannot be written as a graph.
type Refusal struct{ Why string }

func (e *Refusal) Error() string { return e.Why }

// Refuse returns a Refusal with a formatted reason.
func Refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// NaNPropagator is an optional interface of a Detector. If PropagatesNaN returns true,
// ScoreGraph already gives NaN or +Inf to rows that contain NaN or infinities.
type NaNPropagator interface {
	PropagatesNaN() bool
}

// PropagatesNaN reports whether a fitted detector implements NaNPropagator and returns
// true.
func PropagatesNaN(fitted any) bool {
	c, ok := fitted.(NaNPropagator)
	return ok && c.PropagatesNaN()
}

// Score appends nodes that compute a fitted detector's score for the rows of b. All parts
// must belong to the same graph. Rows with NaN or infinities score NaN or +Inf.
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

// Unguarded appends nodes that compute the score without a guard against NaN and
// infinities. Rows that contain them may have any score.
func Unguarded(fitted any, b Batch) (Tensor, error) {
	if d, ok := fitted.(Detector); ok {
		return d.ScoreGraph(b)
	}
	return Tensor{}, errNoGraph
}

// Quantiles appends nodes that compute the quantiles of a fitted interval model. If a row
// of x contains NaN or infinities, its quantiles are NaN.
func Quantiles(fitted any, x Tensor, levels []float64) (Tensor, error) {
	q, ok := fitted.(QuantileRegressor)
	if !ok {
		return Tensor{}, errNoGraph
	}
	all, err := q.QuantilesGraph(x, levels)
	if err != nil {
		return Tensor{}, err
	}
	unknown := x.MatMul(x.Constant(make([]float32, x.cols), x.cols, 1)) // 0, or NaN
	return all.Add(unknown.Reshape(0, 1, 1)), nil
}

// BoundedQuantiles is an optional interface of a QuantileRegressor. QuantileBounds returns the
// largest magnitude that a quantile of each target can have.
type BoundedQuantiles interface {
	QuantileBounds() []float64
}

// QuantileBounds returns the bounds of a fitted interval model, or nil if it has none.
func QuantileBounds(fitted any) []float64 {
	if q, ok := fitted.(BoundedQuantiles); ok {
		return q.QuantileBounds()
	}
	return nil
}

var errNoGraph = &Refusal{"only methods of attach can be written as a graph of ONNX operators, and not all of them"}

// MostBank is the largest size in bytes of the training rows in a graph. Larger model files
// are slow to load, especially in browsers.
const MostBank = 256 << 20

// CheckBank returns an error if n rows of h numbers, of bytesPerNumber bytes each, are
// larger than MostBank.
func CheckBank(n, h, bytesPerNumber int) error {
	size := bytesPerNumber * n * h
	if size <= MostBank {
		return nil
	}
	return Refuse("it compares with %d stored rows of %d features, %d MB, but a graph can store at most %d MB: fit it on fewer rows", n, h, size>>20, MostBank>>20)
}
