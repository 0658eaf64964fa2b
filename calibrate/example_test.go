package calibrate_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/calibrate"
)

func ExampleConformal() {
	c, err := calibrate.NewConformal([]float64{0.1, 0.4, 0.2, 0.3, 0.9, 0.5, 0.6, 0.8, 0.7})
	if err != nil {
		panic(err)
	}
	fmt.Println(c.PValue(0.75), c.PValue(2))
	fmt.Println(c.Threshold(0.1))
	fmt.Println(c.Threshold(0.01))
	// Output:
	// 0.3 0.1
	// 0.9
	// +Inf
}

func ExampleTemperature() {
	logits := blas32.General{Rows: 4, Cols: 2, Stride: 2, Data: []float32{4, 0, 4, 0, 4, 0, 4, 0}}
	t, err := calibrate.Temperature(logits, []int{0, 0, 0, 1})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.3f\n", t) // T = 4/ln 3, because three of four rows are right
	// Output: 3.641
}

func ExampleSets() {
	logits := blas32.General{Rows: 4, Cols: 3, Stride: 3, Data: []float32{
		2, 0, 0, 0, 2, 0, 0, 0, 2, 1, 1, 0,
	}}
	c, err := calibrate.NewClassCalibration(logits, []int{0, 1, 2, 1})
	if err != nil {
		panic(err)
	}
	s, err := c.Sets(calibrate.SetOptions{Score: "lac"}, 0.2)
	if err != nil {
		panic(err)
	}
	row := blas32.General{Rows: 1, Cols: 3, Stride: 3, Data: []float32{1, 1, -1}}
	fmt.Println(s.Predict(row, 0))
	// Output: [[0 1]]
}

func ExampleClassCalibration_Selective() {
	// Example: accept the confident predictions of a model. It is right in all rows except the
	// ten with the lowest confidence.
	logits, labels := blas32.General{Rows: 100, Cols: 2, Stride: 2, Data: make([]float32, 200)}, make([]int, 100)
	for i := range labels {
		logits.Data[2*i] = float32(100-i) / 10
		if i >= 90 {
			labels[i] = 1
		}
	}
	c, err := calibrate.NewClassCalibration(logits, labels)
	if err != nil {
		panic(err)
	}
	s, err := c.Selective(nil, 0.05)
	if err != nil {
		panic(err)
	}
	fmt.Printf("above %.3f: %d of %d rows, %d of them wrong\n", s.Confidence, s.Rows, s.Of, s.Errors)
	// Output: above 0.731: 90 of 100 rows, 0 of them wrong
}

func ExampleOnline() {
	scores := make([]float64, 999)
	for i := range scores {
		scores[i] = float64(i)
	}
	c, err := calibrate.NewConformal(scores)
	if err != nil {
		panic(err)
	}
	// Example: decide for each row, as it arrives, whether it is an outlier.
	stream := calibrate.Online{FDR: .2, Horizon: 100}
	for _, score := range []float64{500, 2000, 997, 3000, 996, 400} {
		p := c.PValue(score)
		fmt.Printf("p-value %.3f at level %.3f: %v\n", p, stream.Level(), stream.Test(p))
	}
	// Output:
	// p-value 0.500 at level 0.002: false
	// p-value 0.001 at level 0.002: true
	// p-value 0.003 at level 0.004: true
	// p-value 0.001 at level 0.006: true
	// p-value 0.004 at level 0.008: true
	// p-value 0.600 at level 0.010: false
}

// Example: detect a drift of the scores of a stream.
func ExampleMonitor() {
	rng := rand.New(rand.NewPCG(1, 1))
	scores := func(n int, mean float64) []float64 {
		list := make([]float64, n)
		for i := range list {
			list[i] = mean + rng.NormFloat64()
		}
		return list
	}
	monitor, err := calibrate.NewMonitor(scores(500, 0), 0)
	if err != nil {
		panic(err)
	}
	watch := func(scores []float64) {
		for _, score := range scores {
			if err := monitor.Add(score); err != nil {
				panic(err)
			}
		}
		fmt.Println("drift after", monitor.Rows(), "rows:", monitor.Alarm(.01))
	}
	watch(scores(1000, 0))
	watch(scores(20, 3))
	// Output:
	// drift after 1000 rows: false
	// drift after 1020 rows: true
}

func ExampleNewDensityRatio() {
	// Example: the scores of rows grow with their only feature, and new rows have a larger
	// feature than calibration rows. Weights correct for this shift.
	r := rand.New(rand.NewPCG(1, 2))
	draw := func(n int, mean float64) blas32.General {
		x := blas32.General{Rows: n, Cols: 1, Stride: 1, Data: make([]float32, n)}
		for i := range x.Data {
			x.Data[i] = float32(mean + r.NormFloat64())
		}
		return x
	}
	calibration, target := draw(1000, 0), draw(1000, 1)
	scores := make([]float64, calibration.Rows)
	for i, x := range calibration.Data {
		scores[i] = float64(x)
	}
	ratio, weights, err := calibrate.NewDensityRatio(context.Background(), calibration, target)
	if err != nil {
		panic(err)
	}
	plain, err := calibrate.NewConformal(scores)
	if err != nil {
		panic(err)
	}
	weighted, err := calibrate.NewWeightedConformal(scores, weights)
	if err != nil {
		panic(err)
	}
	fresh := draw(1000, 1)
	alarms, weightedAlarms := 0, 0
	for _, x := range fresh.Data {
		if plain.PValue(float64(x)) <= 0.1 {
			alarms++
		}
		if weighted.PValue(float64(x), ratio.Weight([]float32{x})) <= 0.1 {
			weightedAlarms++
		}
	}
	fmt.Printf("%d weighted rows are worth %.0f rows\n", len(weights), calibrate.EffectiveSampleSize(weights))
	fmt.Printf("false alarms in 1000 rows at 0.1: %d without weights, %d with weights\n", alarms, weightedAlarms)
	// Output:
	// 1000 weighted rows are worth 369 rows
	// false alarms in 1000 rows at 0.1: 378 without weights, 99 with weights
}
