package calibrate_test

import (
	"fmt"

	"github.com/attach-uncertainty/attach/calibrate"
)

func ExampleCQR_SmoothedInterval() {
	// Counts, predicted as 5: of seven calibration rows four are 1 off. The
	// plain interval covers them all, where 5/8 are promised.
	predicted := []float64{5, 5, 5, 5, 5, 5, 5}
	c, err := calibrate.NewCQR(predicted, predicted, []float64{5, 6, 4, 5, 6, 5, 4})
	if err != nil {
		panic(err)
	}
	const alpha, seed = 0.375, 1
	lower, upper := c.Interval(9, 9, alpha)
	fmt.Println("plain: from", lower, "to", upper)
	for row := range uint64(4) {
		lower, upper := c.SmoothedInterval(9, 9, alpha, calibrate.Tau(seed, row))
		fmt.Println("row", row, "covers 8:", lower <= 8 && 8 <= upper, "9:", lower <= 9 && 9 <= upper)
	}
	// Output:
	// plain: from 8 to 10
	// row 0 covers 8: false 9: true
	// row 1 covers 8: true 9: true
	// row 2 covers 8: false 9: true
	// row 3 covers 8: false 9: true
}

func ExampleQuantileCalibration_Side() {
	q := calibrate.QuantileCalibration{
		Levels: []float64{0.1, 0.5, 0.9},
		Grid:   []float32{0, 1, 2, 0, 1, 2, 0, 1, 2},
		Y:      []float32{1, 3, 0.5},
	}
	o, err := q.Side(calibrate.Lower, 0.25)
	if err != nil {
		panic(err)
	}
	row := []float32{5, 6, 7}
	fmt.Println(o.Bound(q.Quantile(row, calibrate.Lower.Level(0.25)), 0.25))
	// Output: 5.5
}

func ExampleQuantileCalibration_ByGroup() {
	q := calibrate.QuantileCalibration{Levels: []float64{0.5}, Grid: []float32{0, 0, 0, 0}, Y: []float32{1, 8, 2, 9}}
	for _, group := range []string{"small", "large", "unseen"} {
		part, seen := q.ByGroup([]string{"small", "large", "small", "large"})[group]
		if !seen {
			fmt.Println(group, "was not calibrated")
			continue
		}
		c, err := part.At(0.4)
		if err != nil {
			panic(err)
		}
		fmt.Println(group, c.Margin(0.4))
	}
	// Output:
	// small 2
	// large 9
	// unseen was not calibrated
}

func ExampleNewJoint() {
	levels := []float64{0.1, 0.9}
	one := calibrate.QuantileCalibration{Levels: levels, Grid: []float32{0, 1, 0, 1}, Y: []float32{0.5, 2}}
	two := calibrate.QuantileCalibration{Levels: levels, Grid: []float32{0, 4, 0, 4}, Y: []float32{6, 1}}
	j, err := calibrate.NewJoint([]calibrate.QuantileCalibration{one, two}, 0.4)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.3f\n", j.Margin(0.4))
	// Output: 1.500
}

func ExampleQuantileCalibration_PredictiveSystem() {
	q := calibrate.QuantileCalibration{
		Levels: []float64{0.25, 0.5, 0.75},
		Grid:   []float32{0, 1, 2, 0, 1, 2, 0, 1, 2},
		Y:      []float32{1, 3, 0.5},
	}
	s, err := q.PredictiveSystem()
	if err != nil {
		panic(err)
	}
	d := q.Distribution(s, []float32{10, 20, 30})
	fmt.Println(d.Quantile(0.25, 0), d.Quantile(0.5, 0), d.Quantile(0.75, 0))
	// Output: 15 20 40
}

func ExampleSample() {
	draws := make([]float64, 3)
	calibrate.Sample(draws, 1, 0, func(level float64) float64 { return 10 + 2*level }) // uniform on (10, 12)
	for _, v := range draws {
		fmt.Println(10 < v && v < 12)
	}
	// Output:
	// true
	// true
	// true
}

func ExampleDistribution_Sample() {
	q := calibrate.QuantileCalibration{Levels: []float64{0.5}, Grid: make([]float32, 4), Y: []float32{-1, 0, 1, 3}}
	s, err := q.PredictiveSystem()
	if err != nil {
		panic(err)
	}
	draws := make([]float64, 5)
	q.Distribution(s, []float32{10}).Sample(draws, 1, 0)
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
