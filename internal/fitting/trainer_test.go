package fitting_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

// fixedTrainer is a Trainer that always returns the same networks.
type fixedTrainer []train.Network

func (r fixedTrainer) Train(context.Context, train.Problem) ([]train.Network, error) { return r, nil }

// TestTrainersAreChecked checks that Fit refuses the wrong number of trained networks, and
// networks with wrong widths or infinite weights.
func TestTrainersAreChecked(t *testing.T) {
	linear := func(in, out int) train.Network {
		return train.Network{Layers: []train.Layer{{W: rows.New(in, out)}}}
	}
	notFinite := linear(4, 2)
	notFinite.Layers[0].W.Data[3] = float32(math.Inf(1))
	mismatched := linear(4, 3)
	mismatched.Layers = append(mismatched.Layers, linear(1, 2).Layers...)
	for wantErr, r := range map[string]fixedTrainer{
		"":                           {linear(4, 2)},
		"0 networks for 1 models":    {},
		"maps 3 values to 2":         {linear(3, 2)},
		"maps 4 values to 1":         {linear(4, 1)},
		"network has no layers":      {{}},
		"layer 1 reads 1 values":     {mismatched},
		"weight of layer 0 has +Inf": {notFinite},
	} {
		m := ood.Method{
			Name: "trained", Needs: ood.Needs{Features: true, Trainer: true},
			Fit: func(ctx context.Context, tr ood.Training, _ ood.Params) (any, error) {
				_, err := tr.Trainer.Train(ctx, train.Problem{X: tr.Features, Conditional: true, Outputs: 2, Models: make([]train.ModelConfig, 1)})
				return &constant{}, err
			},
		}
		_, err := fitting.Fit(t.Context(), m, ood.Training{Batch: ood.Batch{Features: rows.New(5, 3)}, Trainer: r}, nil)
		if (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("error %v, want %q", err, wantErr)
		}
	}
}
