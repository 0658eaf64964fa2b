package gaussian

import (
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
)

// Sum describes the graph of a score. The score is a weighted sum of distances to the nearest
// class and of other columns.
type Sum struct {
	Classes []Classes
	Rows    []graph.Tensor // one tensor for each distance, n×h
	Others  []graph.Tensor // n×columns
	Weights []float64      // weights of the distances, followed by weights of the columns
}

// Summed is a graph.Detector whose score is a Sum. If a column is computed from every
// element of a row, the score of a row that is not finite is NaN. This holds even if the
// weight of the column is 0.
type Summed interface {
	Sum(b graph.Batch) Sum
}

// Graph writes the score as graph nodes. The result is n×1.
func (s Sum) Graph() graph.Tensor {
	columns, weights := Columns([]Sum{s})
	return columns.MatMul(weights)
}

// Columns writes the distances and other columns of several sums as graph nodes, n×columns
// in float64. weights has the weight of each column in each sum, columns×sums. Unless there
// are more than maxDifferences differences, all distances share their nodes, because the
// run time for few rows depends on the number of nodes.
func Columns(sums []Sum) (columns graph.Tensor, weights blas64.General) {
	var classes []Classes
	var x, tensors []graph.Tensor
	for _, s := range sums {
		classes, x, tensors = append(classes, s.Classes...), append(x, s.Rows...), append(tensors, s.Others...)
	}
	if len(classes) > 0 {
		tensors = append([]graph.Tensor{distancesGraph(classes, x)}, tensors...)
	}
	columns = concatColumns(tensors)
	weights = dense.New(columns.Cols(), len(sums))
	nextDistance, nextOther := 0, len(classes)
	for i, s := range sums {
		for k, w := range s.Weights {
			column := &nextDistance
			if k >= len(s.Classes) {
				column = &nextOther
			}
			weights.Data[*column*weights.Stride+i] = w
			*column++
		}
	}
	return columns, weights
}

// concatColumns concatenates the columns of tensors in float64.
func concatColumns(x []graph.Tensor) graph.Tensor {
	if len(x) == 1 {
		return x[0].Double()
	}
	return x[0].Double().Concat(x[1:]...)
}

const (
	// chunk is the number of squares that are summed in the precision of the projection.
	// Whitened rows are padded with zeros to a multiple of chunk.
	chunk = 32
	// maxDifferences is the largest number of differences to class means per row. With more
	// differences, each distance gets its own graph nodes.
	maxDifferences = 1 << 16
)

// distancesGraph writes the distances of the rows of x[i], n×h, to the nearest class of
// all[i], for each i. The result is n×len(all). If there are few differences, all distances
// share their nodes.
func distancesGraph(all []Classes, x []graph.Tensor) graph.Tensor {
	maxClasses, width, single := 0, 0, true
	for _, c := range all {
		maxClasses, width = max(maxClasses, c.Means.Rows), width+padded(c.Means.Cols)
		single = single && c.Projection.Single != nil
	}
	if maxClasses*width > maxDifferences {
		var separate []graph.Tensor
		for i, c := range all {
			separate = append(separate, c.NearestGraph(x[i]))
		}
		return concatColumns(separate).Sqrt()
	}
	var whitened []graph.Tensor
	means, groups := dense.New(maxClasses, width), dense.New(width/chunk, len(all))
	k := 0
	for i, c := range all {
		w, m := c.product(x[i])
		if !single {
			w = w.Double()
		}
		whitened = append(whitened, w)
		for y := range maxClasses { // classes with fewer means repeat their last mean
			copy(dense.Row(means, y)[k:], dense.Row(m, min(y, m.Rows-1)))
		}
		for range m.Cols / chunk {
			groups.Data[k/chunk*groups.Stride+i] = 1
			k += chunk
		}
	}
	w := whitened[0]
	if len(whitened) > 1 {
		w = w.Concat(whitened[1:]...)
	}
	w = w.Reshape(-1, 1, int64(width/chunk), chunk)
	differences := w.Sub(w.Numbers(means.Data, maxClasses, width/chunk, chunk))
	squared := differences.Reduce("ReduceSumSquare", -1, width/chunk).Double().MatMul(groups) // n×maxClasses×len(all)
	return squared.Reduce("ReduceMin", 1, len(all)).Sqrt()
}

// padded returns the smallest multiple of chunk that is at least n.
func padded(n int) int { return (n + chunk - 1) / chunk * chunk }

// product writes whitened rows as graph nodes, padded with zeros, and returns the class means
// in the same space. In float64, it multiplies x without subtracting the mean, and shifts the
// class means by the whitened mean. In float32, this would lose digits. It therefore subtracts
// the mean rounded to float32 from x, and only the rest of the mean shifts the class means.
func (c Classes) product(x graph.Tensor) (whitened graph.Tensor, means blas64.General) {
	p, m := toDouble(c.Projection), toDouble(c.Means)
	projection := dense.New(p.Rows, padded(p.Cols))
	for i := range p.Rows {
		copy(dense.Row(projection, i), dense.Row(p, i))
	}
	means = dense.New(m.Rows, projection.Cols)
	for y := range m.Rows {
		copy(dense.Row(means, y), dense.Row(m, y))
	}
	centre := slices.Clone(c.Mean) // the mean, or the rest that float32 cannot represent
	if c.Projection.Single != nil {
		single := dense.Single(centre)
		for i, v := range single {
			centre[i] -= float64(v)
		}
		x = x.Sub(single)
	}
	shift := make([]float64, projection.Cols)
	blas64.Gemv(blas.Trans, 1, projection, dense.Vector(centre), 0, dense.Vector(shift))
	for y := range means.Rows {
		blas64.Axpy(1, dense.Vector(shift), dense.Vector(dense.Row(means, y)))
	}
	return x.MatMul(newMatrix(projection, c.Projection.Single != nil)), means
}
