package experiment

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"
)

func checkNear(t *testing.T, label string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %v, want %v", label, got, want)
	}
}

// TestGaussianIntervals compares the measures with values that forecasts.py computed for
// Gaussian forecasts.
func TestGaussianIntervals(t *testing.T) {
	raw, err := os.ReadFile("../../internal/numeric/measure/testdata/forecasts.json")
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Mean, SD, Y             []float64
		IntervalScore           float64 `json:"interval_score"`
		PICP90, MPIW90, NMPIW90 float64
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	central := func(alpha float64) (lower, upper []float64) {
		halfWidth := distuv.UnitNormal.Quantile(1 - alpha/2)
		for i, mean := range r.Mean {
			lower, upper = append(lower, mean-halfWidth*r.SD[i]), append(upper, mean+halfWidth*r.SD[i])
		}
		return lower, upper
	}
	lower, upper := central(0.1)
	checkNear(t, "PICP", PICP(lower, upper, r.Y), r.PICP90, 1e-12)
	checkNear(t, "MPIW", MPIW(lower, upper), r.MPIW90, 1e-5)
	checkNear(t, "MPIW in ranges of the target", MPIW(lower, upper)/(floats.Max(r.Y)-floats.Min(r.Y)), r.NMPIW90, 1e-6)
	var score float64
	for k := 1; k < 100; k++ {
		alpha := 1 - float64(k)/100
		lower, upper := central(alpha)
		score += IntervalScore(lower, upper, r.Y, alpha) / 99
	}
	checkNear(t, "interval score", score, r.IntervalScore, 1e-4)
}

func TestIntervals(t *testing.T) {
	lower, upper, y := []float64{0, 0, 0, 0}, []float64{1, 2, 1, 2}, []float64{0.5, 2, 3, -1}
	checkNear(t, "PICP", PICP(lower, upper, y), 0.25, 0) // a target equal to a bound is not inside
	checkNear(t, "MPIW", MPIW(lower, upper), 1.5, 0)
	checkNear(t, "interval score", IntervalScore(lower, upper, y, 0.5), (1+2+(1+4*2)+(2+4*1))/4., 1e-12)
	defer func() {
		if recover() == nil {
			t.Error("no panic where lengths differ")
		}
	}()
	PICP([]float64{1}, []float64{2}, nil)
}

func TestCrossing(t *testing.T) {
	rows, pairs := Crossing([]float32{1, 2, 3, 3, 2, 1, 1, 3, 2, 1, 1, 1}, 3)
	checkNear(t, "crossing rate", pairs, 3./8, 1e-12)
	checkNear(t, "crossed rows", rows, 2./4, 1e-12)
	if rows, pairs = Crossing([]float32{1}, 1); rows != 0 || pairs != 0 {
		t.Errorf("one level: %v of rows, %v of pairs", rows, pairs)
	}
}
