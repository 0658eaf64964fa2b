package calibrate

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
)

// TestRidgeBruteForce compares intervals with those of scikit-learn's ridge regressions, one for
// each candidate of a grid.
func TestRidgeBruteForce(t *testing.T) {
	content, err := os.ReadFile("testdata/ridge.json")
	if err != nil {
		t.Fatal(err)
	}
	var reference struct {
		QuantileLevels []float64 `json:"quantile_levels"`
		Cases          []struct {
			Y                  []float64
			Quantiles, Rows    [][]float64
			Levels             []float64
			Lower, Upper, Step [][]float64
		}
	}
	if err := json.Unmarshal(content, &reference); err != nil {
		t.Fatal(err)
	}
	for _, c := range reference.Cases {
		q := QuantileCalibration{Levels: reference.QuantileLevels, Y: dense.Single(c.Y)}
		for _, row := range c.Quantiles {
			q.Grid = append(q.Grid, dense.Single(row)...)
		}
		for l, level := range c.Levels {
			alpha := 1 - level
			// The reference always has the widths between the outermost quantiles.
			q.Levels = []float64{alpha / 2, 0.5, 1 - alpha/2}
			v, err := NewIntervals([]QuantileCalibration{q}, IntervalOptions{Score: conformal.Ridge}, alpha)
			if err != nil {
				t.Fatal(err)
			}
			for i, row := range c.Rows {
				var lower, upper [1]float64
				v.Predict(lower[:], upper[:], [][]float32{dense.Single(row)}, 0)
				for _, end := range []struct{ got, want, outside float64 }{{lower[0], c.Lower[i][l], -1}, {upper[0], c.Upper[i][l], 1}} {
					if math.Abs(end.want) == 1e308 {
						end.want = math.Inf(int(end.outside))
					}
					// The end lies between the outermost candidate inside and the next one.
					if beyond := (end.got - end.want) * end.outside; end.got != end.want && !(beyond > -1e-6 && beyond < c.Step[i][l]) {
						t.Errorf("%d rows, level %v, row %d: an end is %v, and the outermost candidate inside %v", len(c.Y), level, i, end.got, end.want)
					}
				}
			}
		}
	}
}

// TestRidgeCoverage checks that intervals cover with at least the level, also if scores tie, and
// hardly more if they do not. The errors of the model have a mean that is not 0.
func TestRidgeCoverage(t *testing.T) {
	const n, draws, alpha = 19, 4000, 0.1
	for _, whole := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(7, 1))
		draw := func() (row []float32, y float32) {
			median, width := rng.NormFloat64(), rng.ExpFloat64()
			target := median + 1 + width*rng.NormFloat64()
			if whole {
				median, width, target = math.Round(median), math.Round(width), math.Round(target)
			}
			return []float32{float32(median - width), float32(median), float32(median + width)}, float32(target)
		}
		covered := 0.
		for range draws {
			q := QuantileCalibration{Levels: []float64{0.05, 0.5, 0.95}}
			for range n {
				row, y := draw()
				q.Grid, q.Y = append(q.Grid, row...), append(q.Y, y)
			}
			v, err := NewIntervals([]QuantileCalibration{q}, IntervalOptions{Score: conformal.Ridge}, alpha)
			if err != nil {
				t.Fatal(err)
			}
			var lower, upper [1]float64
			row, y := draw()
			v.Predict(lower[:], upper[:], [][]float32{row}, 0)
			if lower[0] <= float64(y) && float64(y) <= upper[0] {
				covered += 1. / draws
			}
		}
		deviation := math.Sqrt(alpha * (1 - alpha) / draws)
		if covered < 1-alpha-3*deviation || !whole && covered > 1-alpha+3*deviation {
			t.Errorf("whole numbers %v: coverage %v, want %v", whole, covered, 1-alpha)
		}
	}
}

// TestRidgeFewRows checks intervals that must be infinite.
func TestRidgeFewRows(t *testing.T) {
	levels := []float64{0.05, 0.5, 0.95}
	for _, c := range []struct {
		rows  int
		alpha float64
		row   []float32
	}{{0, 0.5, []float32{0, 1, 2}}, {1, 0.5, []float32{0, 1, 2}}, {8, 0.1, []float32{0, 1, 2}}, {20, 0.1, []float32{0, 1, float32(math.Inf(1))}}} {
		q := QuantileCalibration{Levels: levels}
		for i := range c.rows {
			q.Grid, q.Y = append(q.Grid, 0, 1, 2), append(q.Y, float32(i))
		}
		v, err := NewIntervals([]QuantileCalibration{q}, IntervalOptions{Score: conformal.Ridge}, c.alpha)
		if err != nil {
			t.Fatal(err)
		}
		var lower, upper [1]float64
		v.Predict(lower[:], upper[:], [][]float32{c.row}, 0)
		if !math.IsInf(lower[0], -1) || !math.IsInf(upper[0], 1) {
			t.Errorf("%d rows at α=%v: [%v, %v]", c.rows, c.alpha, lower[0], upper[0])
		}
	}
}

// TestRidgeRefusals checks the errors of options and rows that the score cannot use.
func TestRidgeRefusals(t *testing.T) {
	good := QuantileCalibration{Levels: []float64{0.05, 0.5, 0.95}, Grid: []float32{0, 1, 2}, Y: []float32{1}}
	weighted, infinite := good, good
	weighted.Weights, infinite.Y = []float64{1}, []float32{float32(math.Inf(1))}
	for name, c := range map[string]struct {
		q QuantileCalibration
		o IntervalOptions
	}{"joint": {good, IntervalOptions{Joint: true}}, "smoothed": {good, IntervalOptions{Smoothed: true}}, "weighted": {weighted, IntervalOptions{}}, "infinite": {infinite, IntervalOptions{}}} {
		c.o.Score = conformal.Ridge
		if _, err := NewIntervals([]QuantileCalibration{c.q}, c.o, 0.1); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := NewCrossIntervals([]QuantileCalibration{good}, []int{0}, IntervalOptions{Score: conformal.Ridge}, 0.1); err == nil {
		t.Error("cross: no error")
	}
}
