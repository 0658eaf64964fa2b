package attach_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
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

// This example predicts rows of a series with intervals that adapt. The targets of each row
// become known later.
func Example_series() {
	b, err := attach.Open("testdata/v1_regression.attach")
	check(err)
	levels := b.Calibration.Quantiles[0].Levels
	predictor, err := b.Predictor(attach.PredictOptions{Joint: true, Levels: levels, NoScore: true})
	check(err)
	intervals := predictor.Intervals("")
	adaptive, err := calibrate.NewAdaptive(intervals.CalibrationScores()[0], calibrate.AdaptiveOptions{Alpha: 0.2, Steps: []float64{0.05}, Window: 20})
	check(err)

	lower, upper := make([]float64, 2), make([]float64, 2)
	for day, y := range [][]float32{{0.5, 0.5}, {20, 30}, {21, 31}, {22, 32}, {23, 33}} {
		features := []float32{0.5, 0.5, 0, 0.1}
		if day == 3 {
			features[0] = 1e30 // a broken sensor
		}
		p, err := predictor.Predict(context.Background(), attach.Rows{Batch: ood.Batch{
			Features: blas32.General{Rows: 1, Cols: 4, Stride: 4, Data: features},
			Logits:   blas32.General{Rows: 1, Cols: 2, Stride: 2, Data: []float32{0.5, 0.5}},
		}})
		check(err)
		id := fmt.Sprint("day ", day)
		var quantiles [][]float32
		known := true
		for _, target := range p[0].Targets {
			quantiles = append(quantiles, toFloat32(target.Quantiles))
			known = known && !math.IsNaN(target.Median)
		}
		if !known {
			fmt.Println(id + ": the features say nothing about the targets")
			continue // the intervals are infinite
		}
		level, threshold, err := adaptive.Next(id)
		check(err)
		intervals.PredictMargins(lower, upper, quantiles, []float64{threshold})
		fmt.Printf("%s, level %.2f: [%.1f, %.1f] and [%.1f, %.1f]\n", id, level, lower[0], upper[0], lower[1], upper[1])

		// Later, when the targets y of the day are known:
		_, err = adaptive.Feedback(id, intervals.Scores(quantiles, y)[0])
		check(err)
	}
	// Output:
	// day 0, level 0.20: [-2.4, 3.2] and [-2.5, 3.2]
	// day 1, level 0.21: [-2.4, 3.2] and [-2.5, 3.2]
	// day 2, level 0.17: [-2.9, 3.7] and [-3.0, 3.7]
	// day 3: the features say nothing about the targets
	// day 4, level 0.13: [-28.6, 29.4] and [-29.3, 30.0]
}

func toFloat32(v []float64) (list []float32) {
	for _, x := range v {
		list = append(list, float32(x))
	}
	return list
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
