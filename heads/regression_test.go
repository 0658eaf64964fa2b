package heads

import (
	"context"
	"math"
	"reflect"
	"testing"

	"github.com/attach-uncertainty/attach/heads/train"

	"gonum.org/v1/gonum/blas/blas32"
)

func TestFitSQRGrid(t *testing.T) {
	x, y := randomRows(80, 3, 5, 1), randomRows(80, 2, -7, 2)
	held := &train.Validation{X: randomRows(20, 3, 5, 3), Y: randomRows(20, 2, -7, 4), Levels: []float64{0.1, 0.9}}
	grid := []SQROptions{
		{Hidden: []int{4}, Seed: 1, Epochs: 3, Validation: held},
		{Hidden: []int{4}, Seed: 1, Epochs: 3, Levels: []float64{0.9, 0.1}, Validation: held},
		{Hidden: []int{4}, Seed: 9, Epochs: 3, LearningRate: 0.1, Dropout: 0.5, Averaging: 0.7, Validation: held},
	}
	tr := &recorder{}
	got, err := FitSQRGrid(context.Background(), x, y, tr, grid)
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.problems) != 2 {
		t.Fatalf("%d runs, want 2", len(tr.problems))
	}
	want := []train.ModelConfig{
		{Seed: 1, LearningRate: 1e-3}, {Seed: 2, LearningRate: 1e-3, Target: 1},
		{Seed: 9, LearningRate: 0.1, Dropout: 0.5, Averaging: 0.7}, {Seed: 10, LearningRate: 0.1, Dropout: 0.5, Averaging: 0.7, Target: 1},
	}
	if p := tr.problems[0]; !reflect.DeepEqual(p.Models, want) || p.Levels != nil {
		t.Errorf("first run trains %+v at levels %v", p.Models, p.Levels)
	}
	v := tr.problems[0].Validation
	for i, value := range v.X.Data {
		j := i % 3
		raw := float64(held.X.Data[i/3*held.X.Stride+j])
		if want := (raw - got[0].X.Mean[j]) / got[0].X.Scale[j]; math.Abs(float64(value)-want) > 1e-5 {
			t.Fatalf("validation value %v was standardised to %v, want %v", raw, value, want)
		}
	}
	if !reflect.DeepEqual(v.Levels, held.Levels) {
		t.Errorf("levels to validate at %v", v.Levels)
	}
	for i, s := range got {
		alone, err := FitSQR(context.Background(), x, y, tr, grid[i])
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(s, alone) {
			t.Errorf("configuration %d differs between a grid and alone", i)
		}
	}
}

func TestFitRegressionNetworksRefuses(t *testing.T) {
	x, y := randomRows(10, 3, 0, 1), randomRows(10, 1, 0, 2)
	p := train.Problem{Hidden: []int{2}, Outputs: 2, Loss: train.GaussianNLL, Epochs: 1, BatchSize: 5, Models: []train.ModelConfig{{LearningRate: 1}}}
	if _, err := FitRegressionNetworks(context.Background(), x, y, nil, p); err == nil {
		t.Error("no trainer was accepted")
	}
	p.Validation = &train.Validation{X: randomRows(5, 2, 0, 1), Y: randomRows(5, 1, 0, 2)}
	if _, err := FitRegressionNetworks(context.Background(), x, y, &recorder{}, p); err == nil {
		t.Error("validation rows of another width were accepted")
	}
	p.Validation = nil
	fitted, err := FitRegressionNetworks(context.Background(), x, y, &recorder{}, p)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("rows of another width did not panic")
		}
	}()
	fitted[0].EachBlock(randomRows(5, 2, 0, 1), func(int, blas32.General) {})
}

func TestGaussianVariance(t *testing.T) {
	for v, want := range map[float64]float64{0: math.Ln2 + 1e-3, 1000: 1000.001, -1000: 1e-3, 2: math.Log(1+math.Exp(2)) + 1e-3} {
		if got := train.GaussianVariance(v); math.Abs(got-want) > 1e-12*max(want, 1) {
			t.Errorf("variance of %v is %v, want %v", v, got, want)
		}
	}
}
