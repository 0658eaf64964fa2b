package binarylogit

import (
	"cmp"
	"context"
	"math"

	"github.com/attach-uncertainty/attach/ood"
)

// pairedNetwork converts a model with a single logit z to one with the two logits 0 and z.
type pairedNetwork struct{ ood.Network }

func (n pairedNetwork) Forward(ctx context.Context, x ood.InputBlock) (ood.Batch, error) {
	b, err := n.Network.Forward(ctx, x)
	if err == nil {
		b.Logits = toPair(b.Logits)
	}
	return b, err
}

func (n pairedNetwork) Gradient(ctx context.Context, x ood.InputBlock, of ood.Scalar) (ood.Batch, ood.Tensor, error) {
	b, g, err := n.Network.Gradient(ctx, x, ood.Scalar{Logit: true})
	if err != nil {
		return b, g, err
	}
	width := len(g.Data) / max(b.Logits.Rows, 1)
	for i := range b.Logits.Rows {
		d := pairSlope(of, float64(b.Logits.Data[i*b.Logits.Stride]))
		for j := i * width; j < (i+1)*width; j++ {
			g.Data[j] = float32(d * float64(g.Data[j]))
		}
	}
	b.Logits = toPair(b.Logits)
	return b, g, nil
}

func (n pairedNetwork) Dropout(ctx context.Context, x ood.InputBlock, passes int, p float64, seed uint64) ([]float32, error) {
	z, err := n.Network.Dropout(ctx, x, passes, p, seed)
	pair := make([]float32, 2*len(z))
	for i, v := range z {
		pair[2*i+1] = v
	}
	return pair, err
}

// pairSlope returns the derivative, with respect to z, of a scalar function of the logits
// (0, z).
func pairSlope(of ood.Scalar, z float64) float64 {
	t := cmp.Or(of.Temperature, 1)
	positiveProbability := 1 / (1 + math.Exp(-z/t)) // probability of class 1
	slope := 1.
	if of.Softmax {
		slope = positiveProbability * (1 - positiveProbability) / t
	}
	switch {
	case of.Sum:
		return 1
	case of.Top:
		if z > 0 {
			return 1
		}
		return 0
	case of.TopTwo:
		if of.Softmax {
			slope *= 2
		}
		if z > 0 {
			return slope
		}
		return -slope
	case of.Logit:
		if of.Index == 0 && of.Softmax {
			return -slope
		}
		return slope * float64(of.Index)
	case z > 0:
		return (1 - positiveProbability) / t
	}
	return -positiveProbability / t
}
