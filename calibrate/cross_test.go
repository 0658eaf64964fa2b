package calibrate

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
)

// TestCrossIntervalsMAPIE compares CV+ intervals around point predictions with those of MAPIE.
func TestCrossIntervalsMAPIE(t *testing.T) {
	content, err := os.ReadFile("testdata/cross.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Folds          []int
		Y, Calibration []float32
		Rows           [][]float32
		Levels         []float64
		Lower, Upper   [][]float64
	}
	if err := json.Unmarshal(content, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		for l, level := range c.Levels {
			q := QuantileCalibration{Levels: []float64{.5}, Grid: c.Calibration, Y: c.Y}
			v, err := NewCrossIntervals([]QuantileCalibration{q}, c.Folds, IntervalOptions{}, 1-level)
			if err != nil {
				t.Fatal(err)
			}
			for i, predictions := range c.Rows {
				var bands [][][]float32
				for _, p := range predictions {
					bands = append(bands, [][]float32{{p}})
				}
				var lower, upper [1]float64
				v.Predict(lower[:], upper[:], bands)
				if math.Abs(lower[0]-c.Lower[i][l]) > 1e-5 || math.Abs(upper[0]-c.Upper[i][l]) > 1e-5 {
					t.Errorf("%d rows, level %v, row %d: [%v, %v], want [%v, %v]", len(c.Y), level, i, lower[0], upper[0], c.Lower[i][l], c.Upper[i][l])
				}
			}
		}
	}
}

// crossProblem returns calibration rows with two targets and quantiles of several models for
// them and for a new row.
func crossProblem(rng *rand.Rand, n, folds int) (targets []QuantileCalibration, fold []int, bands [][][]float32, y []float32) {
	levels := []float64{.05, .5, .95}
	draw := func() (row []float32) {
		center := rng.NormFloat64()
		for _, z := range []float64{-1.2, 0, 1.5} {
			row = append(row, float32(center+z*(.2+rng.Float64())))
		}
		return row
	}
	targets = []QuantileCalibration{{Levels: levels}, {Levels: levels}}
	for i := range n {
		fold = append(fold, i%folds)
		for t := range targets {
			targets[t].Grid, targets[t].Y = append(targets[t].Grid, draw()...), append(targets[t].Y, float32(2*rng.NormFloat64()))
		}
	}
	for range folds {
		bands = append(bands, [][]float32{draw(), draw()})
	}
	return targets, fold, bands, []float32{float32(3 * rng.NormFloat64()), float32(3 * rng.NormFloat64())}
}

// TestCrossIntervalsCompare checks that intervals contain each target whose score is above that
// of fewer than ⌈(1−α)(n+1)⌉ calibration rows, and that they contain no target that is further
// out than such targets of one half-line.
func TestCrossIntervalsCompare(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 1))
	outside := 0
	for range 300 {
		n := 20 + rng.IntN(20)
		targets, folds, bands, y := crossProblem(rng, n, 5)
		for _, o := range []IntervalOptions{{}, {Score: conformal.CQRR}, {Score: conformal.CQRM}, {Score: conformal.CIR}, {Side: conformal.Lower}, {Side: conformal.Upper}, {Joint: true}} {
			const alpha = .2
			v, err := NewCrossIntervals(targets, folds, o, alpha)
			if err != nil {
				t.Fatal(err)
			}
			lower, upper := make([]float64, 2), make([]float64, 2)
			v.Predict(lower, upper, bands)
			plain, err := NewIntervals(targets, o, alpha)
			if err != nil {
				t.Fatal(err)
			}
			scores := plain.CalibrationScores()
			for b := range scores {
				larger := 0
				for i, s := range scores[b] {
					if plain.Scores(bands[folds[i]], y)[b] > s {
						larger++
					}
				}
				inside := lower[b] <= float64(y[b]) && float64(y[b]) <= upper[b]
				if o.Joint {
					inside = inside && lower[1] <= float64(y[1]) && float64(y[1]) <= upper[1]
				}
				rank := int(math.Ceil((1 - alpha) * float64(n+1) * (1 - 1e-12)))
				if !inside {
					outside++
				}
				if larger < rank && !inside {
					t.Fatalf("%+v: %v is outside [%v, %v], but its score is above those of only %d of %d rows", o, y, lower, upper, larger, n)
				}
				if o.Side != "" && inside && larger >= rank {
					t.Fatalf("%+v: %v is in [%v, %v], but its score is above those of %d of %d rows", o, y[b], lower[b], upper[b], larger, n)
				}
			}
		}
	}
	if outside < 100 {
		t.Errorf("only %d targets were outside", outside)
	}
}

// TestCrossIntervalsOneModel checks that models that agree give the intervals of split conformal
// prediction.
func TestCrossIntervalsOneModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(42, 1))
	targets, folds, bands, _ := crossProblem(rng, 30, 6)
	for k := range bands {
		bands[k] = bands[0]
	}
	for _, o := range []IntervalOptions{{}, {Score: conformal.CQRM}, {Side: conformal.Upper}, {Joint: true}} {
		for _, alpha := range []float64{.01, .1, .5, .9} {
			v, err := NewCrossIntervals(targets, folds, o, alpha)
			if err != nil {
				t.Fatal(err)
			}
			plain, err := NewIntervals(targets, o, alpha)
			if err != nil {
				t.Fatal(err)
			}
			var got, want [2][2]float64
			v.Predict(got[0][:], got[1][:], bands)
			plain.Predict(want[0][:], want[1][:], bands[0], 0)
			if got != want {
				t.Errorf("%+v, α %v: %v, want %v", o, alpha, got, want)
			}
		}
	}
}

func TestCrossIntervalsRefuse(t *testing.T) {
	targets, folds, _, _ := crossProblem(rand.New(rand.NewPCG(43, 1)), 12, 4)
	weighted := slices.Clone(targets)
	weighted[0].Weights = make([]float64, 12)
	for _, c := range []struct {
		targets []QuantileCalibration
		folds   []int
		o       IntervalOptions
		want    string
	}{
		{targets, folds, IntervalOptions{Smoothed: true}, "cannot be smoothed"},
		{targets, folds, IntervalOptions{Score: conformal.RCP}, `"rcp"`},
		{targets, folds[1:], IntervalOptions{}, "12 calibration rows, but folds of 11"},
		{targets, append([]int{-1}, folds[1:]...), IntervalOptions{}, "negative"},
		{weighted, folds, IntervalOptions{}, "weights"},
		{targets, folds, IntervalOptions{Side: "left"}, `"left"`},
	} {
		if _, err := NewCrossIntervals(c.targets, c.folds, c.o, .1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.o, err, c.want)
		}
	}
}
