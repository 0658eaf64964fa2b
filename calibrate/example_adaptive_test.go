package calibrate_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/attach-uncertainty/attach/calibrate"
)

// Example: predict a series whose noise becomes three times as large after 1,000 rows. The
// target of each row becomes known ten rows later.
func ExampleAdaptive() {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	row := func(noise float64) (quantiles []float32, target float32) {
		x := rng.Float64()
		return []float32{float32(x - 1.6), float32(x + 1.6)}, float32(x + noise*rng.NormFloat64())
	}
	calibration := calibrate.QuantileCalibration{Levels: []float64{0.05, 0.95}}
	for range 500 {
		quantiles, target := row(1)
		calibration.Grid, calibration.Y = append(calibration.Grid, quantiles...), append(calibration.Y, target)
	}
	intervals, err := calibrate.NewIntervals([]calibrate.QuantileCalibration{calibration}, calibrate.IntervalOptions{}, 0.1)
	check(err)
	adaptive, err := calibrate.NewAdaptive(intervals.CalibrationScores()[0], calibrate.AdaptiveOptions{Alpha: 0.1, Window: 250})
	check(err)

	lower, upper := make([]float64, 1), make([]float64, 1)
	covered, coveredFixed := 0, 0
	var later []float64 // scores of targets that become known later
	for i := range 3000 {
		noise := 1.0
		if i >= 1000 {
			noise = 3
		}
		quantiles, target := row(noise)
		isInside := func() bool { return lower[0] <= float64(target) && float64(target) <= upper[0] }
		_, threshold, err := adaptive.Next(strconv.Itoa(i))
		check(err)
		if intervals.PredictMargins(lower, upper, [][]float32{quantiles}, []float64{threshold}); isInside() {
			covered++
		}
		if intervals.Predict(lower, upper, [][]float32{quantiles}, 0); isInside() {
			coveredFixed++
		}
		later = append(later, intervals.Scores([][]float32{quantiles}, []float32{target})...)
		if i >= 10 {
			_, err := adaptive.Feedback(strconv.Itoa(i-10), later[i-10])
			check(err)
		}
		if n := i + 1; n%500 == 0 {
			fmt.Printf("%d rows: coverage %.3f, with fixed margins %.3f\n", n, float64(covered)/float64(n), float64(coveredFixed)/float64(n))
		}
	}
	state, err := json.Marshal(adaptive)
	check(err)
	reopened := &calibrate.Adaptive{}
	check(json.Unmarshal(state, reopened))
	_, err = reopened.Feedback("2990", later[2990])
	check(err)
	// Output:
	// 500 rows: coverage 0.900, with fixed margins 0.908
	// 1000 rows: coverage 0.899, with fixed margins 0.894
	// 1500 rows: coverage 0.901, with fixed margins 0.732
	// 2000 rows: coverage 0.898, with fixed margins 0.657
	// 2500 rows: coverage 0.901, with fixed margins 0.607
	// 3000 rows: coverage 0.900, with fixed margins 0.574
}
