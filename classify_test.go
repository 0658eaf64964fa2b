package attach

import (
	"context"
	"math"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/ood"
)

// TestNoTemperature checks that no temperature is fitted if all rows are classified correctly,
// and that confidence is then the plain softmax or sigmoid.
func TestNoTemperature(t *testing.T) {
	rows := ood.Batch{
		Features: blas32.General{Rows: 40, Cols: 2, Stride: 2, Data: make([]float32, 80)},
		Logits:   blas32.General{Rows: 40, Cols: 2, Stride: 2, Data: make([]float32, 80)},
		Labels:   make([]int, 40),
	}
	for i := range 40 {
		rows.Labels[i] = i % 2
		rows.Logits.Data[2*i+i%2], rows.Logits.Data[2*i+1-i%2] = 1, .5
		rows.Features.Data[2*i], rows.Features.Data[2*i+1] = float32(i), float32(i*i%7)
	}
	b, err := Fit(context.Background(), FitOptions{Base: Base{Task: Classification}, Batch: rows})
	if err != nil {
		t.Fatal(err)
	}
	predictor, err := b.Predictor(PredictOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := predictor.Predict(context.Background(), Rows{Batch: rows})
	if err != nil {
		t.Fatal(err)
	}
	if want := 1 / (1 + math.Exp(-.5)); b.Calibration.Temperature != 0 || math.Abs(p[0].Confidence-want) > 1e-6 {
		t.Errorf("temperature %v, confidence %v, want none and %v", b.Calibration.Temperature, p[0].Confidence, want)
	}

	b.Base.Sigmoid = true
	if p, err = predictor.Predict(context.Background(), Rows{Batch: rows}); err != nil {
		t.Fatal(err)
	}
	if want := 1 / (1 + math.Exp(-1)); math.Abs(p[0].Confidence-want) > 1e-6 {
		t.Errorf("confidence of a sigmoid %v, want %v", p[0].Confidence, want)
	}
}
