package baselines_test

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/attach-uncertainty/attach/ood"
)

// twoLayers is a network with features φ = act(Vx+a) and logits Wφ+b, computed in float64.
// It computes its own gradients.
type twoLayers struct {
	hidden            [][]float64 // the matrix V, or nil for the identity
	shift             []float64   // the vector a, or nil for zeros
	activation, slope func(float64) float64
	last              *ood.Linear
	rate              float64 // rate of its dropout layer; 0 if it has none
}

type twoLayersRow struct{ before, phi, z []float64 }

func (n twoLayers) row(x []float32, mask func(j int) float64) twoLayersRow {
	h, c := n.last.Weight.Cols, n.last.Weight.Rows
	r := twoLayersRow{make([]float64, h), make([]float64, h), make([]float64, c)}
	for j := range h {
		if n.hidden == nil {
			r.before[j] = float64(x[j])
		} else {
			for i, v := range n.hidden[j] {
				r.before[j] += v * float64(x[i])
			}
		}
		if n.shift != nil {
			r.before[j] += n.shift[j]
		}
		r.phi[j] = n.activation(r.before[j])
	}
	for k := range c {
		r.z[k] = float64(n.last.Bias[k])
		for j, v := range r.phi {
			if mask != nil {
				v *= mask(j)
			}
			r.z[k] += v * float64(n.last.Weight.Data[k*n.last.Weight.Stride+j])
		}
	}
	return r
}

func (n twoLayers) Forward(ctx context.Context, x ood.InputBlock) (ood.Batch, error) {
	b := ood.Batch{Features: zeros(x.Len(), n.last.Weight.Cols), Logits: zeros(x.Len(), n.last.Weight.Rows)}
	in := x.Tensors[0]
	width := len(in.Data) / max(x.Len(), 1)
	for i := range x.Len() {
		r := n.row(in.Data[i*width:(i+1)*width], nil)
		for j, v := range r.phi {
			b.Features.Data[i*b.Features.Stride+j] = float32(v)
		}
		for k, v := range r.z {
			b.Logits.Data[i*b.Logits.Stride+k] = float32(v)
		}
	}
	return b, ctx.Err()
}

func (n twoLayers) Gradient(ctx context.Context, x ood.InputBlock, of ood.Scalar) (ood.Batch, ood.Tensor, error) {
	b, err := n.Forward(ctx, x)
	in := x.Tensors[0]
	g := make([]float32, len(in.Data))
	width := len(in.Data) / max(x.Len(), 1)
	for i := range x.Len() {
		r := n.row(in.Data[i*width:(i+1)*width], nil)
		up := logitGradient(r.z, of)
		for j, before := range r.before {
			var d float64
			for k, u := range up {
				d += u * float64(n.last.Weight.Data[k*n.last.Weight.Stride+j])
			}
			d *= n.slope(before)
			if n.hidden == nil {
				g[i*width+j] = float32(d)
				continue
			}
			for a, v := range n.hidden[j] {
				g[i*width+a] += float32(d * v)
			}
		}
	}
	return b, ood.Tensor{Shape: in.Shape, Data: g}, err
}

// logitGradient returns the gradient of a scalar function with respect to the logits z.
func logitGradient(z []float64, of ood.Scalar) []float64 {
	t := of.Temperature
	if t == 0 {
		t = 1
	}
	p := make([]float64, len(z))
	var sum float64
	first, second := 0, -1
	for k, v := range z {
		p[k] = math.Exp(v / t)
		sum += p[k]
		if v > z[first] {
			first = k
		}
	}
	for k, v := range z {
		p[k] /= sum
		if k != first && (second < 0 || v > z[second]) {
			second = k
		}
	}
	up := make([]float64, len(z))
	for k := range up {
		switch {
		case of.Sum:
			up[k] = 1
		case of.Top:
			up[first] = 1
		case of.TopTwo && of.Softmax:
			up[k] = -p[k] * (p[first] - p[second]) / t
		case !of.TopTwo:
			up[k] = -p[k] / t
		}
	}
	switch {
	case of.Sum || of.Top:
	case of.TopTwo && of.Softmax:
		up[first] += p[first] / t
		up[second] -= p[second] / t
	case of.TopTwo:
		up[first], up[second] = 1, -1
	default:
		up[first] += 1 / t
	}
	return up
}

func (n twoLayers) Dropouts() int {
	if n.rate > 0 {
		return 1
	}
	return 0
}

func (n twoLayers) Dropout(ctx context.Context, x ood.InputBlock, passes int, p float64, seed uint64) ([]float32, error) {
	if n.rate > 0 {
		p = n.rate
	}
	if p == 0 {
		return nil, ood.ErrNoDropout
	}
	var z []float32
	in := x.Tensors[0]
	width := len(in.Data) / max(x.Len(), 1)
	for s := range passes {
		for i := range x.Len() {
			rng := rand.New(rand.NewPCG(seed, uint64(s)<<32+uint64(x.Start+i)))
			keep := make([]float64, n.last.Weight.Cols)
			for j := range keep {
				if rng.Float64() >= p {
					keep[j] = 1 / (1 - p)
				}
			}
			for _, v := range n.row(in.Data[i*width:(i+1)*width], func(j int) float64 { return keep[j] }).z {
				z = append(z, float32(v))
			}
		}
	}
	return z, ctx.Err()
}
