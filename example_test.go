package attach_test

import (
	"context"
	"fmt"
	"log"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/ood"
)

// This example adds uncertainty to the features and logits of a model that another service
// runs. It needs no cgo.
func Example_service() {
	b, err := attach.Open("testdata/v1_regression.attach")
	check(err)
	predictor, err := b.Predictor(attach.PredictOptions{Level: 0.8})
	check(err)
	// For each of two rows, the model computed four features and two outputs.
	batch := ood.Batch{
		Features: blas32.General{Rows: 2, Cols: 4, Stride: 4, Data: []float32{0.5, 0.5, 0, 0.1, 9, -8, 7, 6}},
		Logits:   blas32.General{Rows: 2, Cols: 2, Stride: 2, Data: []float32{0.5, 0.5, 6, 6}},
	}
	p, err := predictor.Predict(context.Background(), attach.Rows{Batch: batch})
	check(err)
	for _, row := range p {
		y := row.Targets[0]
		fmt.Printf("%.1f in [%.1f, %.1f], p-value %.2f, flag %v\n", y.Value, y.Lower, y.Upper, row.PValue, row.Flag)
	}
	// Output:
	// 0.5 in [-1.4, 2.2], p-value 0.67, flag false
	// 6.0 in [4.7, 8.2], p-value 0.05, flag true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleFit() {
	in := attach.FitOptions{
		Base:  attach.Base{Task: attach.Classification},
		Batch: labelledRows(), // in-distribution rows with features, logits and labels
		Seed:  1,
	}
	b, err := attach.Fit(context.Background(), in)
	check(err)
	fmt.Println(b.Detector.Method, b.Calibration.NFit, b.Calibration.NCal)
	// Output: certificates-coupled 80 20
}

func labelledRows() ood.Batch { return blob(1, 100, 8, 3, 0) }

// This example predicts intervals that are calibrated by group.
func ExamplePredictor_Predict() {
	b, err := attach.Open("testdata/v1_groups.attach")
	check(err)
	predictor, err := b.Predictor(attach.PredictOptions{Level: 0.8})
	check(err)
	row := []float32{0.5, 0.5, 0, 0.1}
	p, err := predictor.Predict(context.Background(), attach.Rows{
		Batch: ood.Batch{
			Features: blas32.General{Rows: 3, Cols: 4, Stride: 4, Data: append(append(append([]float32{}, row...), row...), row...)},
			Logits:   blas32.General{Rows: 3, Cols: 1, Stride: 1, Data: []float32{0.5, 0.5, 0.5}},
		},
		Groups: []string{"minus", "plus", "never seen"},
	})
	check(err)
	for _, row := range p {
		fmt.Printf("[%.1f, %.1f]\n", row.Targets[0].Lower, row.Targets[0].Upper)
	}
	// Output:
	// [-1.2, 1.8]
	// [-1.8, 2.4]
	// [-Inf, +Inf]
}

// This example fits a quantile forest as the interval model, which needs no trainer.
func ExampleFit_forest() {
	in := regressor(1, 100, 1) // 100 rows with one target each
	in.IntervalModel, _ = attach.MethodByName("quantile-forest")
	in.Trainer = nil
	b, err := attach.Fit(context.Background(), in)
	check(err)
	fmt.Println(b.IntervalModel.Method)
	// Output: quantile-forest
}
