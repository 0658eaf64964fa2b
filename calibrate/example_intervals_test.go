package calibrate_test

import (
	"fmt"

	"github.com/attach-uncertainty/attach/calibrate"
)

func ExampleNewIntervals() {
	// Example: make intervals from predicted quantiles. The quantiles 0.1 and 0.9 of the four
	// calibration rows are 0 and 2, 1 and 3, and so on.
	q := calibrate.QuantileCalibration{Levels: []float64{0.1, 0.9}, Grid: []float32{0, 2, 1, 3, 2, 4, 3, 5}, Y: []float32{1, 3.5, 1, 4}}
	lower, upper := make([]float64, 1), make([]float64, 1)
	for _, alpha := range []float64{0.2, 0.05} {
		v, err := calibrate.NewIntervals([]calibrate.QuantileCalibration{q}, calibrate.IntervalOptions{}, alpha)
		if err != nil {
			panic(err)
		}
		v.Predict(lower, upper, [][]float32{{10, 12}}, 0)
		fmt.Println(lower, upper)
	}
	// Output:
	// [9] [13]
	// [-Inf] [+Inf]
}

func ExampleNewIntervals_smoothed() {
	// Example: predict counts, where scores tie. All seven calibration rows are predicted as
	// 5, and four of them are off by 1. The guarantee is a coverage of 5/8, but the plain
	// interval covers all seven.
	q := calibrate.QuantileCalibration{Levels: []float64{0.5}, Grid: []float32{5, 5, 5, 5, 5, 5, 5}, Y: []float32{5, 6, 4, 5, 6, 5, 4}}
	lower, upper := make([]float64, 1), make([]float64, 1)
	for _, o := range []calibrate.IntervalOptions{{}, {Side: "lower"}, {Smoothed: true, Seed: 1}} {
		v, err := calibrate.NewIntervals([]calibrate.QuantileCalibration{q}, o, 0.375)
		if err != nil {
			panic(err)
		}
		for row := range uint64(2) {
			v.Predict(lower, upper, [][]float32{{9}}, row)
			fmt.Println("row", row, "covers 8:", lower[0] <= 8 && 8 <= upper[0], "9:", lower[0] <= 9 && 9 <= upper[0], "11:", lower[0] <= 11 && 11 <= upper[0])
		}
	}
	// Output:
	// row 0 covers 8: true 9: true 11: false
	// row 1 covers 8: true 9: true 11: false
	// row 0 covers 8: false 9: true 11: true
	// row 1 covers 8: false 9: true 11: true
	// row 0 covers 8: false 9: true 11: false
	// row 1 covers 8: true 9: true 11: false
}

func ExampleNewIntervals_joint() {
	levels := []float64{0.1, 0.9}
	first := calibrate.QuantileCalibration{Levels: levels, Grid: []float32{0, 1, 0, 1}, Y: []float32{0.5, 2}}
	second := calibrate.QuantileCalibration{Levels: levels, Grid: []float32{0, 4, 0, 4}, Y: []float32{6, 1}}
	v, err := calibrate.NewIntervals([]calibrate.QuantileCalibration{first, second}, calibrate.IntervalOptions{Joint: true}, 0.4)
	if err != nil {
		panic(err)
	}
	lower, upper := make([]float64, 2), make([]float64, 2)
	v.Predict(lower, upper, [][]float32{{0, 1}, {0, 4}}, 0)
	fmt.Printf("%.3f to %.3f and %.3f to %.3f\n", lower[0], upper[0], lower[1], upper[1])
	// Output: -1.000 to 2.000 and -4.000 to 8.000
}

func ExampleQuantileCalibration_ByGroup() {
	q := calibrate.QuantileCalibration{Levels: []float64{0.5}, Grid: []float32{0, 0, 0, 0}, Y: []float32{1, 8, 2, 9}}
	lower, upper := make([]float64, 1), make([]float64, 1)
	for _, group := range []string{"small", "large", "unseen"} {
		part, seen := q.ByGroup([]string{"small", "large", "small", "large"})[group]
		if !seen {
			fmt.Println(group, "was not calibrated")
			continue
		}
		v, err := calibrate.NewIntervals([]calibrate.QuantileCalibration{part}, calibrate.IntervalOptions{}, 0.4)
		if err != nil {
			panic(err)
		}
		v.Predict(lower, upper, [][]float32{{5}}, 0)
		fmt.Println(group, "from", lower[0], "to", upper[0])
	}
	// Output:
	// small from 3 to 7
	// large from -4 to 14
	// unseen was not calibrated
}

func ExampleQuantileCalibration_PredictiveSystem() {
	q := calibrate.QuantileCalibration{
		Levels: []float64{0.25, 0.5, 0.75},
		Grid:   []float32{0, 1, 2, 0, 1, 2, 0, 1, 2},
		Y:      []float32{1, 3, 0.5},
	}
	distribution, err := q.PredictiveSystem()
	if err != nil {
		panic(err)
	}
	d := distribution([]float32{10, 20, 30})
	fmt.Println(d.Quantile(0.25, 0), d.Quantile(0.5, 0), d.Quantile(0.75, 0))
	// Output: 15 20 40
}

func ExampleDistribution_Sample() {
	q := calibrate.QuantileCalibration{Levels: []float64{0.5}, Grid: make([]float32, 4), Y: []float32{-1, 0, 1, 3}}
	distribution, err := q.PredictiveSystem()
	if err != nil {
		panic(err)
	}
	draws := make([]float64, 5)
	distribution([]float32{10}).Sample(draws, 1, 0)
	for _, v := range draws {
		fmt.Println(9 <= v && v <= 13)
	}
	// Output:
	// true
	// true
	// true
	// true
	// true
}
