package compare_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
)

// noGradient is a model that cannot be differentiated.
type noGradient struct{ ood.Network }

func (noGradient) Gradient(context.Context, ood.InputBlock, ood.Scalar) (ood.Batch, ood.Tensor, error) {
	return ood.Batch{}, ood.Tensor{}, fmt.Errorf("%w: node 7", ood.ErrNotDifferentiable)
}

type gradientScorer struct{ seed uint64 }

func (s *gradientScorer) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	if s.seed == 0 {
		if _, _, err := b.Network.Gradient(ctx, b.Inputs.(ood.InputBlock), ood.Scalar{}); err != nil {
			return err
		}
	}
	for i := range dst {
		dst[i] = float64(b.Inputs.(ood.InputBlock).Tensors[0].Data[i])
	}
	return nil
}

func withInputs(x ...float32) ood.Batch {
	b := column(x...)
	b.Inputs = ood.BlockOf([]int{len(x), 1}, x)
	return b
}

func TestCompareOnNetwork(t *testing.T) {
	m := ood.Method{
		Name: "gradient", Needs: ood.Needs{Inputs: true, Network: true},
		Fit: func(_ context.Context, t ood.Training, _ ood.Params) (any, error) {
			return &gradientScorer{t.Seed}, nil
		},
	}
	var fractions []float64
	c := compare.Options{
		Methods:  []ood.Method{m, normMethod},
		Training: ood.Training{Batch: column(1, 2)},
		Test:     withInputs(1, 2), OOD: withInputs(3, 4),
		Progress: func(method string, fraction float64) {
			if method == m.Name {
				fractions = append(fractions, fraction)
			}
		},
	}
	c.Training.Network = noGradient{}
	r, err := compare.Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Methods) != 1 || r.Methods[0].Name != "norm" {
		t.Errorf("methods %+v", r.Methods)
	}
	if len(r.Skipped) != 1 || r.Skipped[0].Name != "gradient" || !strings.Contains(r.Skipped[0].Reason, "node 7") {
		t.Errorf("skipped %v", r.Skipped)
	}

	fractions, c.Training.Seed = nil, 1
	if r, err = compare.Run(context.Background(), c); err != nil || len(r.Methods) != 2 || r.Methods[0].AUROC.Mean != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if !slices.IsSorted(fractions) || len(slices.Compact(slices.Clone(fractions))) < 4 || fractions[len(fractions)-1] != 1 {
		t.Errorf("progress %v", fractions)
	}

	c.OOD.Inputs = nil
	if r, err = compare.Run(context.Background(), c); err != nil || len(r.Skipped) != 1 || !strings.Contains(r.Skipped[0].Reason, "inputs") {
		t.Errorf("without inputs: %+v, %v", r, err)
	}
}
