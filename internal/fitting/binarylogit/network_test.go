package binarylogit

import (
	"context"
	"math"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// identity is a network with one logit that equals its input.
type identity struct{ ood.Network }

func (identity) Gradient(_ context.Context, x ood.InputBlock, _ ood.Scalar) (ood.Batch, ood.Tensor, error) {
	z := rows.New(x.Len(), 1)
	copy(z.Data, x.Tensors[0].Data)
	g := ood.Tensor{Shape: x.Tensors[0].Shape, Data: make([]float32, x.Len())}
	for i := range g.Data {
		g.Data[i] = 1
	}
	return ood.Batch{Logits: z}, g, nil
}

// scalar computes the function of the logits 0 and z that an ood.Scalar selects.
func scalar(of ood.Scalar, z float64) float64 {
	t := of.Temperature
	if t == 0 {
		t = 1
	}
	pair := []float64{0, z}
	sum := math.Log(math.Exp(0) + math.Exp(z/t))
	if of.Softmax {
		for k := range pair {
			pair[k] = math.Exp(pair[k]/t - sum)
		}
	}
	largest, smallest := max(pair[0], pair[1]), min(pair[0], pair[1])
	switch {
	case of.Sum:
		return pair[0] + pair[1]
	case of.Top:
		return largest
	case of.TopTwo:
		return largest - smallest
	case of.Logit:
		return pair[of.Index]
	}
	return largest/t - sum // log-softmax of the larger logit
}

// TestPairSlope checks derivatives against finite differences.
func TestPairSlope(t *testing.T) {
	const step = 1e-4
	for _, of := range []ood.Scalar{
		{}, {Temperature: 3}, {Sum: true}, {Top: true}, {TopTwo: true}, {TopTwo: true, Softmax: true, Temperature: 2},
		{Logit: true}, {Logit: true, Index: 1}, {Logit: true, Softmax: true}, {Logit: true, Index: 1, Softmax: true, Temperature: 2},
	} {
		zs := []float32{-2, -.3, .4, 1.7}
		n := Batch(ood.Batch{Logits: rows.New(4, 1), Network: identity{}}).Network
		_, g, err := n.Gradient(context.Background(), ood.BlockOf([]int{4, 1}, zs), of)
		if err != nil {
			t.Fatal(err)
		}
		for i, z := range zs {
			want := (scalar(of, float64(z)+step) - scalar(of, float64(z)-step)) / (2 * step)
			if math.Abs(float64(g.Data[i])-want) > 1e-5 {
				t.Errorf("%+v at %v: %v, differences say %v", of, z, g.Data[i], want)
			}
		}
	}
}
