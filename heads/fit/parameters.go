package fit

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
)

// parameter describes a weight matrix, a bias, or both in one matrix, for all models. For
// each model, the parameter consists of rows×out numbers.
type parameter struct {
	in, out int // number of inputs and outputs of the layer
	weight  bool
	bias    bool // whether the parameter is or contains a bias; a folded bias is the last row of the weight matrix
	// offset is the start of the parameter in the flat vector. The flat vector holds one
	// parameter after another, and each parameter model by model.
	offset int
}

func (p parameter) rows() int {
	n := 0
	if p.weight {
		n += p.in
	}
	if p.bias {
		n++
	}
	return n
}

func (p parameter) size() int { return p.rows() * p.out }

// parametersOf lists the parameters from input to output. If folded is set, the bias of the
// first layer is a row of its weight matrix. Batches then have a column of ones for this
// row. This saves an addition, and a sum over all hidden units in the backward pass.
func parametersOf(models, in int, widths []int, bias, folded bool) (list []parameter, flat int) {
	add := func(p parameter) {
		p.offset = flat
		flat += models * p.size()
		list = append(list, p)
	}
	for i, out := range widths {
		if folded && i == 0 {
			add(parameter{in: in, out: out, weight: true, bias: true})
		} else {
			add(parameter{in: in, out: out, weight: true})
			if bias {
				add(parameter{in: in, out: out, bias: true})
			}
		}
		in = out
	}
	return list, flat
}

// slice returns the part of the flat vector that holds the parameter of one model.
func (p parameter) slice(flat []float32, model int) []float32 {
	start := p.offset + model*p.size()
	return flat[start : start+p.size()]
}

// lastWeight returns the index in params of the weight matrix of the last layer.
func (p *plan) lastWeight() int {
	last := len(p.params) - 1
	for !p.params[last].weight {
		last--
	}
	return last
}

// initialise draws the weights and biases of one model from U(−1/√in, 1/√in).
func initialise(flat []float32, list []parameter, model int, seed uint64) {
	rng := newRand(seed, streamWeights)
	for _, p := range list {
		bound := 1 / math.Sqrt(float64(p.in))
		w := p.slice(flat, model)
		for i := range w {
			w[i] = float32((2*rng.Float64() - 1) * bound)
		}
	}
}

// network copies the layers of one model from the flat vector.
func network(flat []float32, list []parameter, model int, loss float64) train.Network {
	n := train.Network{Loss: loss}
	for _, p := range list {
		w := append([]float32(nil), p.slice(flat, model)...)
		if p.weight {
			n.Layers = append(n.Layers, train.Layer{
				W: blas32.General{Rows: p.in, Cols: p.out, Stride: p.out, Data: w[: p.in*p.out : p.in*p.out]},
			})
			w = w[p.in*p.out:]
		}
		if p.bias {
			n.Layers[len(n.Layers)-1].B = w
		}
	}
	return n
}

// checkStart returns an error if the initial layers do not have the architecture of p.
func checkStart(p train.Problem, layers []train.Layer) error {
	if layers == nil {
		return nil
	}
	n := train.Network{Layers: layers}
	if err := n.Restored(); err != nil {
		return fmt.Errorf("the initial network: %w", err)
	}
	in := p.X.Cols
	if p.Conditional {
		in++
	}
	if first, last := n.Widths(); first != in || last != p.Outputs || len(layers) != len(p.Hidden)+1 {
		return fmt.Errorf("the initial network has %d layers from %d values to %d, want %d from %d to %d",
			len(layers), first, last, len(p.Hidden)+1, in, p.Outputs)
	}
	for i, l := range layers {
		if i < len(p.Hidden) && l.W.Cols != p.Hidden[i] {
			return fmt.Errorf("the initial network has %d units in hidden layer %d, want %d", l.W.Cols, i, p.Hidden[i])
		}
		if (l.B == nil) != p.NoBias {
			return fmt.Errorf("the initial network has a bias in layer %d: %t, want %t", i, l.B != nil, !p.NoBias)
		}
	}
	return nil
}

// copyStart overwrites the random initial weights of a model with the given layers, unless they
// are nil.
func copyStart(flat []float32, list []parameter, model int, layers []train.Layer) {
	if layers == nil {
		return
	}
	layer := -1
	for _, p := range list {
		dst := p.slice(flat, model)
		if p.weight {
			layer++
			w := layers[layer].W
			for i := range w.Rows {
				dst = dst[copy(dst, w.Data[i*w.Stride:i*w.Stride+w.Cols]):]
			}
		}
		if p.bias {
			copy(dst, layers[layer].B)
		}
	}
}
