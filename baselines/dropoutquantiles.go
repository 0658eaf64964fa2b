package baselines

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

// dropoutPasses is the number of passes with random dropout for each prediction.
const dropoutPasses = 1000

var dropoutQuantilesMethod = ood.Method{
	Name: "mc-dropout",
	Doc: "Quantiles of 1,000 passes of a network that is trained with dropout and also predicts with it. Use it only to compare: the quantiles do not include " +
		"the noise of the targets. The network is trained on the squared error." +
		mlp.Doc,
	Ref:    "Gal & Ghahramani 2016; Tagasovska & Lopez-Paz 2019, table 1",
	Needs:  ood.Needs{Features: true, Trainer: true, Targets: true},
	Memory: mlp.Memory,
	Params: mlp.Params(.1, .25, .5, .75),
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
		n, err := mlp.Train(ctx, t, train.Problem{Outputs: 1, Loss: "mse"})
		return &dropoutQuantiles{n, p.Float("dropout"), t.Seed}, err
	},
	New: func() any { return &dropoutQuantiles{} },
}

type dropoutQuantiles struct {
	mlp.Regression
	Rate float64 `state:"dropout,least=0,below=1"`
	Seed uint64  `state:"seed"`
}

func (d *dropoutQuantiles) Restored() error { return d.Check(0, 1) }

// Quantiles implements ood.QuantileRegressor. A pass drops the same units for all rows.
// Therefore the quantiles of a row do not depend on the other rows of the batch.
func (d *dropoutQuantiles) Quantiles(x blas32.General, levels []float64) ood.Quantiles {
	passes := make([]dropoutNetwork, len(d.Networks))
	for t, network := range d.Networks {
		passes[t] = newDropoutNetwork(network, d.Rate, d.Seed+uint64(t))
	}
	outputs := func(t int, x blas32.General) blas32.General { return passes[t].apply(x) }
	return d.EachRow(x, levels, outputs, func(t int, z, quantiles []float32) {
		slices.Sort(z)
		for l, tau := range levels {
			quantiles[l] = float32(d.Y.Mean[t] + d.Y.Scale[t]*empirical(z, tau))
		}
	})
}

func (d *dropoutQuantiles) QuantilesGraph(x graph.Tensor, levels []float64) (graph.Tensor, error) {
	var grid []float64
	for i := range dropoutPasses {
		grid = append(grid, float64(i)/(dropoutPasses-1))
	}
	return d.EachGraph(x, func(t int, x graph.Tensor) graph.Tensor {
		return newDropoutNetwork(d.Networks[t], d.Rate, d.Seed+uint64(t)).graph(x).Sorted().Interpolate(grid, levels)
	}), nil
}

// empirical returns the quantile of sorted values at a level. It interpolates linearly
// between values.
func empirical(sorted []float32, level float64) float64 {
	at := level * float64(len(sorted)-1)
	i := min(int(math.Floor(at)), len(sorted)-2)
	lo, hi := float64(sorted[i]), float64(sorted[i+1])
	return lo + (at-float64(i))*(hi-lo)
}

// dropoutNetwork is a network with one output, and the dropout masks of its passes.
type dropoutNetwork struct {
	network train.Network
	masks   [][]float32 // one per hidden layer, passes × width, with elements 0 or 1/(1−rate)
}

func newDropoutNetwork(n train.Network, rate float64, seed uint64) dropoutNetwork {
	t := dropoutNetwork{network: n}
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, l := range n.Layers[:len(n.Layers)-1] {
		mask := make([]float32, dropoutPasses*l.W.Cols)
		for i := range mask {
			if rng.Float64() >= rate {
				mask[i] = float32(1 / (1 - rate))
			}
		}
		t.masks = append(t.masks, mask)
	}
	return t
}

// apply returns the output of every pass for every row of x, as a matrix of rows × passes.
func (t dropoutNetwork) apply(x blas32.General) blas32.General {
	layers := t.network.Layers
	last := len(layers) - 1
	out := rows.New(x.Rows, dropoutPasses)
	switch last {
	case 0: // a linear model has no hidden units to drop
		z := t.network.Apply(x)
		for i := range out.Data {
			out.Data[i] = z.Data[i/out.Cols*z.Stride]
		}
		return out
	case 1:
		t.outputs(out, applyHidden(layers[0], x), t.masks[0])
		return out
	}
	base := applyHidden(layers[0], x)
	for pass := range dropoutPasses {
		a := base
		for k := 1; k < last; k++ {
			a = applyHidden(dropInputs(layers[k], t.masks[k-1], pass), a)
		}
		width := layers[last].W.Rows
		column := blas32.General{Rows: x.Rows, Cols: 1, Stride: out.Stride, Data: out.Data[pass:]}
		t.outputs(column, a, t.masks[last-1][pass*width:(pass+1)*width])
	}
	return out
}

// graph adds graph nodes that compute apply.
func (t dropoutNetwork) graph(x graph.Tensor) graph.Tensor {
	layers := t.network.Layers
	last := len(layers) - 1
	layer := func(k int, x graph.Tensor) graph.Tensor {
		return mlp.Graph(layers[k:k+1], x)
	}
	if last == 0 {
		return layer(0, x).Add(make([]float32, dropoutPasses))
	}
	a, w, b := layer(0, x).Relu(), t.lastWeights(t.masks[last-1]), float64(layers[last].B[0])
	if last == 1 {
		return a.MatMulT(w, dropoutPasses).Add(b)
	}
	a = a.Reshape(-1, 1, int64(a.Cols()))
	for k := 1; k < last; k++ {
		a = layer(k, a.Mul(a.Constant(t.masks[k-1], dropoutPasses, a.Cols()))).Relu() // rows × passes × units
	}
	return a.Mul(a.Constant(w)).Sum().Reshape(-1, dropoutPasses).Add(b)
}

// lastWeights returns the weights of the last layer after dropout of its inputs. The result
// has one row of weights for each pass.
func (t dropoutNetwork) lastWeights(masks []float32) blas32.General {
	l := t.network.Layers[len(t.network.Layers)-1]
	w := rows.New(len(masks)/l.W.Rows, l.W.Rows)
	for i, m := range masks {
		w.Data[i] = m * l.W.Data[i%l.W.Rows*l.W.Stride]
	}
	return w
}

// outputs applies the last layer to the hidden units a, once for each mask. It writes the
// result to dst, a matrix of rows × passes.
func (t dropoutNetwork) outputs(dst, a blas32.General, masks []float32) {
	l := t.network.Layers[len(t.network.Layers)-1]
	w := t.lastWeights(masks)
	for i := range dst.Rows {
		for p := range dst.Cols {
			dst.Data[i*dst.Stride+p] = l.B[0]
		}
	}
	blas32.Gemm(blas.NoTrans, blas.Trans, 1, a, w, 1, dst)
}

// dropInputs returns layer l after dropout of its inputs in a pass.
func dropInputs(l train.Layer, masks []float32, pass int) train.Layer {
	w := rows.New(l.W.Rows, l.W.Cols)
	for j := range l.W.Rows {
		m := masks[pass*l.W.Rows+j]
		for k := range l.W.Cols {
			w.Data[j*w.Stride+k] = m * l.W.Data[j*l.W.Stride+k]
		}
	}
	return train.Layer{W: w, B: l.B}
}

// applyHidden returns the result of a layer followed by ReLU.
func applyHidden(l train.Layer, x blas32.General) blas32.General {
	out := rows.New(x.Rows, l.W.Cols)
	rows.Affine(out, x, l.W, l.B)
	rows.ReLU(out.Data)
	return out
}
