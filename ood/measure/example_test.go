package measure_test

import (
	"fmt"

	"github.com/attach-uncertainty/attach/ood/measure"
)

func ExampleForecasts() {
	f := measure.Forecasts{
		Levels:    []float64{0.1, 0.5, 0.9},
		Quantiles: []float32{0, 1, 2, 1, 2, 4}, // of two rows
		Y:         []float64{1, 5},
	}
	fmt.Printf("CRPS %.3f\n", f.CRPS())
	fmt.Println("PIT", f.PIT(), "share up to each quantile", f.Reliability())
	// Output:
	// CRPS 1.158
	// PIT [0.5 1] share up to each quantile [0 0.5 0.5]
}

func ExamplePICP() {
	lower, upper, y := []float64{0, 1}, []float64{2, 4}, []float64{1, 5}
	fmt.Println("coverage", measure.PICP(lower, upper, y), "width", measure.MPIW(lower, upper))
	// Output: coverage 0.5 width 2.5
}
