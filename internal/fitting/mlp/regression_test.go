package mlp

import (
	"context"
	"math"
	"reflect"
	"testing"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/headstest"
	"github.com/attach-uncertainty/attach/ood"
)

// method returns a method for tests. Its Fit only trains networks for problem p.
func method(p train.Problem) ood.Method {
	return ood.Method{
		Name: "test", Needs: ood.Needs{Features: true, Targets: true, Trainer: true}, Params: Params(0.),
		Fit: func(ctx context.Context, t ood.Training, _ ood.Params) (any, error) {
			n, err := Train(ctx, t, p)
			return &Conditional{Regression: n}, err
		},
	}
}

func TestTrain(t *testing.T) {
	x, y := headstest.Rows(80, 3, 5, 1), headstest.Rows(80, 2, -7, 2)
	heldX, heldY := headstest.Rows(20, 3, 5, 3), headstest.Rows(20, 2, -7, 4)
	grid := []ood.Params{
		{"hidden": 4., "epochs": 3.},
		{"hidden": "6x5", "epochs": 3.},
		{"hidden": 4., "epochs": 3., "learning_rate": 0.1, "weight_decay": 2., "dropout": 0.5, "averaging": 0.7},
		{"layers": 0.}, {"layers": 2., "batch": 8.},
	}
	tr := &headstest.Recorder{}
	training := ood.Training{
		Batch: ood.Batch{Features: x}, Targets: y, Trainer: tr, Seed: 9, Validation: heldX, ValidationTargets: heldY, Levels: []float64{.9, .1},
	}
	m := method(train.Problem{Outputs: 1, Loss: "pinball", Conditional: true})
	got, err := fitting.FitGrid(context.Background(), m, training, grid)
	if err != nil {
		t.Fatal(err)
	}
	var hidden [][]int
	for _, p := range tr.Problems {
		hidden = append(hidden, p.Hidden)
	}
	if want := [][]int{{4}, {6, 5}, {}, {64, 64}}; !reflect.DeepEqual(hidden, want) {
		t.Fatalf("runs of hidden layers %v, want %v", hidden, want)
	}
	want := []train.ModelConfig{
		{Seed: 9, LearningRate: 1e-3}, {Seed: 10, LearningRate: 1e-3, Target: 1},
		{Seed: 9, LearningRate: 0.1, WeightDecay: 2, Dropout: 0.5, Averaging: 0.7},
		{Seed: 10, LearningRate: 0.1, WeightDecay: 2, Dropout: 0.5, Averaging: 0.7, Target: 1},
	}
	p := tr.Problems[0]
	if !reflect.DeepEqual(p.Models, want) || p.Epochs != 3 || p.BatchSize != 64 {
		t.Errorf("first run is %+v", p)
	}
	if p := tr.Problems[3]; p.Epochs != 500 || p.BatchSize != 8 {
		t.Errorf("by default %d epochs of batches of %d", p.Epochs, p.BatchSize)
	}
	first := got[0].Fitted().(*Conditional).Regression
	for i, value := range p.Validation.X.Data {
		j := i % 3
		raw := float64(heldX.Data[i/3*heldX.Stride+j])
		if want := (raw - first.X.Mean[j]) / first.X.Scale[j]; math.Abs(float64(value)-want) > 1e-5 {
			t.Fatalf("validation value %v was standardised to %v, want %v", raw, value, want)
		}
	}
	if want := []float64{.1, .9}; !reflect.DeepEqual(p.Validation.Levels, want) {
		t.Errorf("levels to validate at %v", p.Validation.Levels)
	}
	for i, params := range grid {
		alone, err := fitting.Fit(context.Background(), m, training, params)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got[i].Fitted(), alone.Fitted()) {
			t.Errorf("configuration %d differs between a grid and alone", i)
		}
	}
}

func TestFitRefusesOneRow(t *testing.T) {
	p := train.Problem{Hidden: []int{2}, Outputs: 1, Loss: "mse", Epochs: 1, BatchSize: 5, Models: []train.ModelConfig{{LearningRate: 1}}}
	if _, err := Fit(context.Background(), headstest.Rows(1, 3, 0, 1), headstest.Rows(1, 1, 0, 2), &headstest.Recorder{}, p); err == nil {
		t.Error("one row was accepted")
	}
}
