package mlp

import (
	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
)

// Graph adds graph nodes that apply the layers of a network to the rows of x.
func Graph(layers []train.Layer, x graph.Tensor) graph.Tensor {
	for i, l := range layers {
		if i > 0 {
			x = x.Relu()
		}
		x = x.MatMul(l.W)
		if l.B != nil {
			x = x.Add(l.B)
		}
	}
	return x
}

// graph adds graph nodes that standardise the rows of x.
func (s Standard) graph(x graph.Tensor) graph.Tensor {
	return x.Double().Sub(s.Mean).Div(s.Scale).Single()
}

// EachGraph calls use with standardised rows for each target. Each result has the shape
// n×levels or n×1×levels. EachGraph converts the results to the units of their targets and
// joins them to n×targets×levels.
func (r Regression) EachGraph(x graph.Tensor, use func(target int, x graph.Tensor) graph.Tensor) graph.Tensor {
	x = r.X.graph(x)
	var all []graph.Tensor
	for t := range r.Networks {
		q := use(t, x)
		all = append(all, q.Double().Mul(r.Y.Scale[t]).Add(r.Y.Mean[t]).Single())
	}
	return graph.Stack(all)
}

// QuantilesGraph implements graph.QuantileRegressor.
func (s *Conditional) QuantilesGraph(x graph.Tensor, levels []float64) (graph.Tensor, error) {
	d, inputs := x.Cols(), make([]float32, len(s.Grid))
	for i, tau := range s.Grid {
		inputs[i] = float32(levelInput(tau))
	}
	return s.EachGraph(x, func(t int, x graph.Tensor) graph.Tensor {
		layers := s.Networks[t].Layers
		first := layers[0].W
		rowWeights := first
		rowWeights.Rows = d
		hidden := x.MatMul(rowWeights)
		if b := layers[0].B; b != nil {
			hidden = hidden.Add(b)
		}
		// A level adds a multiple of one row of weights to the first layer, as in
		// gridEvaluator.
		width := first.Cols
		level := hidden.Constant(inputs, len(inputs), 1).Mul(rows.Row(first, d))
		grid := hidden.Reshape(-1, 1, int64(width)).Add(level) // n×levels×width
		if len(layers) > 1 {
			grid = Graph(layers[1:], grid.Relu())
		}
		return grid.Reshape(-1, int64(len(s.Grid))).Sorted().Interpolate(s.Grid, levels)
	}), nil
}
