package measure

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// forecastReference is the content of testdata/forecasts.json, which testdata/forecasts.py
// writes.
type forecastReference struct {
	Mean, SD, Y, Pinball, PIT []float64
	CheckScore                float64   `json:"check_score"`
	CRPSGaussian              float64   `json:"crps_gaussian"`
	CRPSGrid                  []float64 `json:"crps_grid"`
}

func readForecasts(t *testing.T) forecastReference {
	t.Helper()
	raw, err := os.ReadFile("testdata/forecasts.json")
	if err != nil {
		t.Fatal(err)
	}
	var r forecastReference
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// forecastsAt returns Gaussian forecasts with quantiles at levels.
func (r forecastReference) forecastsAt(levels []float64) Forecasts {
	f := Forecasts{Levels: levels, Y: r.Y}
	for i := range r.Y {
		for _, tau := range levels {
			f.Quantiles = append(f.Quantiles, float32(r.Mean[i]+r.SD[i]*distuv.UnitNormal.Quantile(tau)))
		}
	}
	return f
}

// levelsBetween returns n equally spaced levels between 0 and 1, both excluded.
func levelsBetween(n int) []float64 {
	levels := make([]float64, n)
	for i := range levels {
		levels[i] = float64(i+1) / float64(n+1)
	}
	return levels
}

func checkNear(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestForecastMetrics(t *testing.T) {
	r := readForecasts(t)
	f := r.forecastsAt(levelsBetween(99))
	for l, loss := range f.Pinball() {
		checkNear(t, "pinball", loss, r.Pinball[l], 1e-6)
	}
	checkNear(t, "check score", stat.Mean(f.Pinball(), nil), r.CheckScore, 1e-6)

	dense := r.forecastsAt(levelsBetween(9999))
	checkNear(t, "CRPS of a Gaussian", dense.CRPS(), r.CRPSGaussian, 1e-4)
	for i, p := range dense.PIT() {
		checkNear(t, "PIT", p, r.PIT[i], 1e-4)
	}
}

func TestCRPSOfGrid(t *testing.T) {
	r := readForecasts(t)
	f := r.forecastsAt([]float64{0.05, 0.3, 0.5, 0.9})
	for i, want := range r.CRPSGrid {
		forecast := Forecasts{Levels: f.Levels, Quantiles: f.row(i), Y: r.Y[i : i+1]}
		checkNear(t, "CRPS of a row", forecast.CRPS(), want, 1e-5)
	}
	// The CRPS of a point forecast is its absolute error.
	point := Forecasts{Levels: []float64{0.2, 0.7}, Quantiles: []float32{3, 3, 3, 3}, Y: []float64{1, 7}}
	checkNear(t, "CRPS of a point", point.CRPS(), 3, 1e-12)
}

func TestPIT(t *testing.T) {
	levels := []float64{0.1, 0.3, 0.5, 0.9}
	for _, tt := range []struct {
		q    []float32
		y    float64
		want float64
	}{
		{[]float32{1, 2, 3, 4}, 0.5, 0},
		{[]float32{1, 2, 3, 4}, 9, 1},
		{[]float32{1, 2, 3, 4}, 2, 0.3},
		{[]float32{1, 2, 3, 4}, 2.25, 0.35},
		{[]float32{1, 2, 3, 4}, 1, 0.05}, // all probability below 0.1 is at the lowest quantile
		{[]float32{1, 2, 3, 4}, 4, 0.95}, // all probability above 0.9 is at the highest quantile
		{[]float32{1, 2, 2, 4}, 2, 0.4},  // y equals two of the quantiles
		{[]float32{5, 5, 5, 5}, 5, 0.5},  // y equals all quantiles
		{[]float32{1, 2, 2, 4}, 3, 0.7},
	} {
		f := Forecasts{Levels: levels, Quantiles: tt.q, Y: []float64{tt.y}}
		checkNear(t, "PIT", f.PIT()[0], tt.want, 1e-12)
	}
	if p := (Forecasts{Levels: levels, Quantiles: []float32{1, 2, 3, 4}, Y: []float64{math.NaN()}}).PIT()[0]; !math.IsNaN(p) {
		t.Errorf("PIT of NaN is %v", p)
	}
}

func TestPinball(t *testing.T) {
	f := Forecasts{Levels: []float64{0.1}, Quantiles: []float32{1, 2, 1, 2}, Y: []float64{0.5, 2, 3, -1}}
	checkNear(t, "pinball", f.Pinball()[0], (0.9*0.5+0+0.1*2+0.9*3)/4, 1e-12)
}

func TestForecastsPanic(t *testing.T) {
	for name, call := range map[string]func(){
		"too few quantiles": func() { Forecasts{Levels: []float64{0.5}, Y: []float64{1, 2}, Quantiles: []float32{1}}.CRPS() },
		"no levels":         func() { Forecasts{}.PIT() },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call()
		}()
	}
}
