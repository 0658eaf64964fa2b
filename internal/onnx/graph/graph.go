// Package graph writes what fitted methods compute as nodes of an ONNX graph, of
// plain operators that any runtime has.
//
// A fitted method that can has one more method beside its Score or Quantiles, in
// the same file, which does the same with tensors. Products that cost have the
// precision that they have there, float32 mostly; what is little work, sums above
// all, is float64.
package graph

import (
	"fmt"

	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
)

// Batch are n rows as fitted methods see them. What is absent is the zero value.
type Batch struct {
	Features Tensor // n×h, float32
	Logits   Tensor // n×c, float32
	Layers   []Tensor
	Gaps     Tensor // n×k, float32: 1 if a cell is empty, 0 if not
}

// Part is that of a name.
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

// Set sets the part of a name; layers are set in their order.
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

// Detector is a fitted detector that writes its score as nodes.
type Detector interface {
	// ScoreGraph returns scores, n×1, that are those of its Score. Rows that are
	// not finite may have any score. A *Refusal says why a fitted method has no
	// graph.
	ScoreGraph(b Batch) (Tensor, error)
}

// QuantileRegressor is a fitted interval method that writes its quantiles as
// nodes.
type QuantileRegressor interface {
	// QuantilesGraph returns quantiles at levels, n×targets×levels, that are those
	// of its Quantiles for the rows of x.
	QuantilesGraph(x Tensor, levels []float64) (Tensor, error)
}

// Refusal says why a fitted method is not written as a graph.
type Refusal struct{ Why string }

func (e *Refusal) Error() string { return e.Why }

// Refuse is a Refusal, formatted.
func Refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// Carrier is a Detector whose score of a row that is not finite is NaN or +Inf,
// if it says so.
type Carrier interface {
	CarriesNaN() bool
}

// Carries is whether what a detector fitted is a Carrier that says so.
func Carries(fitted any) bool {
	c, ok := fitted.(Carrier)
	return ok && c.CarriesNaN()
}

// Score writes the score of what a detector fitted for the rows of b, which has
// the parts that the detector reads, all of the same graph. A row that is not
// finite scores NaN or +Inf.
func Score(fitted any, b Batch) (Tensor, error) {
	score, err := Unguarded(fitted, b)
	if err != nil {
		return Tensor{}, err
	}
	score = score.Double()
	if Carries(fitted) {
		return score, nil
	}
	for _, part := range append([]Tensor{b.Features, b.Logits}, b.Layers...) {
		if part.name != "" {
			score = score.Marked(part)
		}
	}
	return score, nil
}

// Unguarded is Score, with any score for a row that is not finite.
func Unguarded(fitted any, b Batch) (Tensor, error) {
	if d, ok := fitted.(Detector); ok {
		return d.ScoreGraph(b)
	}
	return Tensor{}, noGraph
}

// Quantiles is Score for what an interval method fitted.
func Quantiles(fitted any, x Tensor, levels []float64) (Tensor, error) {
	q, ok := fitted.(QuantileRegressor)
	if !ok {
		return Tensor{}, noGraph
	}
	all, err := q.QuantilesGraph(x, levels)
	if err != nil {
		return Tensor{}, err
	}
	return all.Add(x.Mul(0.).Sum().Reshape(0, 1, 1)), nil
}

var noGraph = &Refusal{"it cannot be written as a graph of ONNX operators"}

// MostBank bounds the training rows that a graph holds, in bytes: what a model
// file should hold, and a browser.
const MostBank = 256 << 20

// CheckBank refuses more rows of h numbers, of so many bytes each, than a graph
// holds.
func CheckBank(n, h, each int) error {
	size := each * n * h
	if size <= MostBank {
		return nil
	}
	return Refuse("it keeps %d rows of %d features to compare with, %d MB, and a graph holds %d MB at most: fit it on fewer rows", n, h, size>>20, MostBank>>20)
}
