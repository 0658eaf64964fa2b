package gaussian

import (
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
)

// Sum is the graph of a score: a weighted sum of distances to the nearest class and of further
// columns.
type Sum struct {
	Classes []Classes
	Rows    []graph.Tensor // one tensor for each distance, n×h
	Others  []graph.Tensor // n×columns
	Weights []float64      // for the distances, then for the columns
}

// Summed is a graph.Detector whose score is a Sum. If a column contains every number of a row,
// even with weight 0, the score is NaN for rows that are not finite.
type Summed interface {
	Sum(b graph.Batch) Sum
}

// Graph writes the score, n×1.
func (s Sum) Graph() graph.Tensor {
	columns, weights := Columns([]Sum{s})
	return columns.MatMul(weights)
}

// Columns writes the terms of several sums, n×columns in float64, and returns the weight of
// each column in each sum, columns×sums. All distances share their nodes, because for small n
// the time goes into the number of nodes.
func Columns(sums []Sum) (columns graph.Tensor, weights blas64.General) {
	var of []Classes
	var x, all []graph.Tensor
	for _, s := range sums {
		of, x, all = append(of, s.Classes...), append(x, s.Rows...), append(all, s.Others...)
	}
	if len(of) > 0 {
		all = append([]graph.Tensor{distancesGraph(of, x)}, all...)
	}
	columns = beside(all)
	weights = dense.New(columns.Cols(), len(sums))
	distance, other := 0, len(of)
	for i, s := range sums {
		for k, w := range s.Weights {
			at := &distance
			if k >= len(s.Classes) {
				at = &other
			}
			weights.Data[*at*weights.Stride+i] = w
			*at++
		}
	}
	return columns, weights
}

// beside joins tensors side by side, in float64.
func beside(x []graph.Tensor) graph.Tensor {
	if len(x) == 1 {
		return x[0].Double()
	}
	return x[0].Double().Concat(x[1:]...)
}

const (
	// chunk is the number of squares that are summed in the precision of the projection.
	// Whitened rows are padded with zeros to a multiple of it.
	chunk = 32
	// mostApart limits the number of differences to class means for a row.
	mostApart = 1 << 16
)

// distancesGraph writes the distances of each tensor of rows, n×h, to the nearest of its own
// classes, n×lists.
func distancesGraph(all []Classes, x []graph.Tensor) graph.Tensor {
	most, width, single := 0, 0, true
	for _, c := range all {
		most, width = max(most, c.Means.Rows), width+filled(c.Means.Cols)
		single = single && c.Projection.Single != nil
	}
	if most*width > mostApart {
		var each []graph.Tensor
		for i, c := range all {
			each = append(each, c.NearestGraph(x[i]))
		}
		return beside(each).Sqrt()
	}
	var white []graph.Tensor
	means, own := dense.New(most, width), dense.New(width/chunk, len(all))
	k := 0
	for i, c := range all {
		w, m := c.product(x[i])
		if !single {
			w = w.Double()
		}
		white = append(white, w)
		for y := range most { // repeat the last mean in place of missing ones
			copy(dense.Row(means, y)[k:], dense.Row(m, min(y, m.Rows-1)))
		}
		for range m.Cols / chunk {
			own.Data[k/chunk*own.Stride+i] = 1
			k += chunk
		}
	}
	w := white[0]
	if len(white) > 1 {
		w = w.Concat(white[1:]...)
	}
	w = w.Reshape(-1, 1, int64(width/chunk), chunk)
	apart := w.Sub(w.Numbers(means.Data, most, width/chunk, chunk))
	squared := apart.Reduce("ReduceSumSquare", -1, width/chunk).Double().MatMul(own) // n×classes×lists
	return squared.Reduce("ReduceMin", 1, len(all)).Sqrt()
}

func filled(n int) int { return (n + chunk - 1) / chunk * chunk }

// product writes rows times the projection, padded with zeros, and returns the class means in
// that space.
func (c Classes) product(x graph.Tensor) (white graph.Tensor, means blas64.General) {
	p, m := double(c.Projection), double(c.Means)
	wide := dense.New(p.Rows, filled(p.Cols))
	for i := range p.Rows {
		copy(dense.Row(wide, i), dense.Row(p, i))
	}
	means = dense.New(m.Rows, wide.Cols)
	for y := range m.Rows {
		copy(dense.Row(means, y), dense.Row(m, y))
	}
	centre := slices.Clone(c.Mean) // the mean, or its part beyond float32
	if c.Projection.Single != nil {
		near := dense.Single(centre)
		for i, v := range near {
			centre[i] -= float64(v)
		}
		x = x.Sub(near)
	}
	shift := make([]float64, wide.Cols)
	blas64.Gemv(blas.Trans, 1, wide, dense.Vector(centre), 0, dense.Vector(shift))
	for y := range means.Rows {
		blas64.Axpy(1, dense.Vector(shift), dense.Vector(dense.Row(means, y)))
	}
	return x.MatMul(newStored(wide, c.Projection.Single != nil)), means
}
