package ood_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/ood"
)

// idle is a network that nothing can be asked of but gradients, which it has
// not.
type idle struct{ ood.Network }

func (idle) Gradient(context.Context, ood.InputBlock, ood.Scalar) (ood.Batch, []float32, error) {
	return ood.Batch{}, nil, fmt.Errorf("%w: node 7", ood.ErrNotDifferentiable)
}

type gradientScorer struct{ seed uint64 }

func (s *gradientScorer) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	if s.seed == 0 {
		if _, _, err := b.Network.Gradient(ctx, b.Block, ood.Scalar{}); err != nil {
			return err
		}
	}
	for i := range dst {
		dst[i] = float64(b.Block.Data[i])
	}
	return nil
}

func withInputs(x ...float32) ood.Batch {
	b := line(x...)
	b.Inputs = ood.InputsOf([]int{len(x), 1}, x)
	return b
}

func TestCompareOnNetwork(t *testing.T) {
	m := ood.Method{
		Name: "gradient", Needs: ood.NeedInputs | ood.NeedNetwork,
		Fit: func(_ context.Context, t ood.Training, _ ood.Values) (ood.Fitted, error) {
			return &gradientScorer{t.Seed}, nil
		},
	}
	var shares []float64
	c := ood.Comparison{
		Methods:  []ood.Method{m, normMethod},
		Training: ood.Training{Batch: line(1, 2), Network: idle{}},
		In:       withInputs(1, 2), Out: withInputs(3, 4),
		Progress: func(method string, share float64) {
			if method == m.Name {
				shares = append(shares, share)
			}
		},
	}
	r, err := ood.Compare(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Methods) != 1 || r.Methods[0].Name != "norm" {
		t.Errorf("methods %+v", r.Methods)
	}
	if len(r.Skipped) != 1 || r.Skipped[0].Name != "gradient" || !strings.Contains(r.Skipped[0].Reason, "node 7") {
		t.Errorf("skipped %v", r.Skipped)
	}

	shares, c.Training.Seed = nil, 1
	if r, err = ood.Compare(context.Background(), c); err != nil || len(r.Methods) != 2 || r.Methods[0].AUROC.Mean != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if !slices.IsSorted(shares) || len(slices.Compact(slices.Clone(shares))) < 4 || shares[len(shares)-1] != 1 {
		t.Errorf("progress %v", shares)
	}

	c.Out.Inputs = nil
	if r, err = ood.Compare(context.Background(), c); err != nil || len(r.Skipped) != 1 || !strings.Contains(r.Skipped[0].Reason, "inputs") {
		t.Errorf("without inputs: %+v, %v", r, err)
	}
}

func TestInputScale(t *testing.T) {
	for _, c := range []struct {
		scale ood.InputScale
		shape []int
		want  []float32
	}{
		{ood.InputScale{}, []int{3}, []float32{1, 1, 1}},
		{ood.InputScale{Factor: []float32{4}, Axis: 7}, []int{1, 2}, []float32{4, 4}},
		{ood.InputScale{Factor: []float32{2, 3}}, []int{2, 1, 2}, []float32{2, 2, 3, 3}},
		{ood.InputScale{Factor: []float32{2, 3}, Axis: 2}, []int{1, 2, 2}, []float32{2, 3, 2, 3}},
		{ood.InputScale{Factor: []float32{2, 3}, Axis: 1}, []int{2, 2, 1}, []float32{2, 3, 2, 3}},
		{ood.InputScale{Factor: []float32{2, 3}}, []int{3, 2}, nil},
		{ood.InputScale{Factor: []float32{2, 3}, Axis: 2}, []int{2, 2}, nil},
	} {
		got, err := c.scale.Row(c.shape)
		if !slices.Equal(got, c.want) || (err != nil) != (c.want == nil) {
			t.Errorf("%+v on %v: %v, %v", c.scale, c.shape, got, err)
		}
	}
	for _, f := range []float32{0, -1} {
		if err := (ood.InputScale{Factor: []float32{1, f}}).Check(); err == nil {
			t.Errorf("a factor of %v passes", f)
		}
	}
}
