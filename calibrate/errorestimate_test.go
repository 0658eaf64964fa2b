package calibrate

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// TestEstimateError compares the estimate and the interval with SciPy.
func TestEstimateError(t *testing.T) {
	for i, p := range readPowered(t).Errors {
		e, err := ClassCalibration{Top: p.Top, Ranks: p.Wrong}.EstimateError(p.New, nil, .95)
		if err != nil || math.Abs(e.Error-p.Error) > 1e-12 || math.Abs(e.Low-p.Low) > 1e-9 || math.Abs(e.High-p.High) > 1e-9 {
			t.Errorf("problem %d: %v, %v, want %v in [%v, %v]", i, e, err, p.Error, p.Low, p.High)
		}
	}
}

// errorRows draws rows of an overconfident model. Higher shapes make it less confident.
func errorRows(rng *rand.Rand, n int, shape float64) (top []float64, wrong []int) {
	b := distuv.Beta{Alpha: shape, Beta: 3, Src: rng}
	for range n {
		doubt := b.Rand()
		top, wrong = append(top, 1-doubt), append(wrong, 0)
		if rng.Float64() < math.Pow(doubt, .8) {
			wrong[len(wrong)-1] = 1
		}
	}
	return top, wrong
}

// meanWrong returns the fraction of rows that are wrong.
func meanWrong(wrong []int) (mean float64) {
	for _, w := range wrong {
		mean += float64(w) / float64(len(wrong))
	}
	return mean
}

// TestEstimateErrorCovers checks that intervals of 95 % contain the error rate of the new rows
// in at least 94 % of the draws, with and without a shift of the confidences.
func TestEstimateErrorCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		calibration, rows int
		shape, shift      float64
	}{{100, 200, .4, 1}, {300, 500, .1, 5}, {800, 100, .03, 1}, {500, 500, 1.2, 2}, {500, 500, .4, .5}} {
		draws, covered, mean := 0., 0., 0.
		for draws < 300 {
			top, wrong := errorRows(rng, c.calibration, c.shape)
			newTop, newWrong := errorRows(rng, c.rows, c.shape*c.shift)
			e, err := ClassCalibration{Top: top, Ranks: wrong}.EstimateError(newTop, nil, .95)
			if errors.Is(err, ErrFewErrors) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			draws++
			mean += e.Error - meanWrong(newWrong)
			if e.Low <= meanWrong(newWrong) && meanWrong(newWrong) <= e.High {
				covered++
			}
		}
		if covered/draws < .94 || math.Abs(mean/draws) > .02 {
			t.Errorf("%+v: %.3f covered, bias %.4f", c, covered/draws, mean/draws)
		}
	}
}

// TestEstimateErrorWeighted checks that a weight of 2 gives the estimate of two equal rows,
// and that weights correct for rows whose errors have another cause than low confidence.
func TestEstimateErrorWeighted(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	top, wrong := errorRows(rng, 200, .4)
	newTop, _ := errorRows(rng, 100, .4)
	ones := slices.Repeat([]float64{1}, 100)
	weights := make([]float64, 200)
	var twice ClassCalibration
	for i := range weights {
		weights[i] = float64(i % 3)
		for range i % 3 {
			twice.Top, twice.Ranks = append(twice.Top, top[i]), append(twice.Ranks, wrong[i])
		}
	}
	c := ClassCalibration{Top: top, Ranks: wrong, Weights: weights}
	e, err := c.EstimateError(newTop, ones, .95)
	want, err2 := twice.EstimateError(newTop, nil, .95)
	if err != nil || err2 != nil || math.Abs(e.Error-want.Error) > 1e-12 {
		t.Errorf("%v, want %v (%v, %v)", e, want, err, err2)
	}
	if e.High-e.Low < want.High-want.Low {
		t.Errorf("[%v, %v] is narrower than [%v, %v]: a row with weight 2 is not two rows", e.Low, e.High, want.Low, want.High)
	}
	const draws = 200
	covered, plain := 0., 0.
	for range draws {
		// Half of the calibration rows are of a kind that is five times as often wrong. All
		// new rows are.
		top, wrong := errorRows(rng, 500, .1)
		weights := make([]float64, len(top))
		for i := range wrong {
			if i%2 == 0 {
				if wrong[i] = 0; rng.Float64() < min(1, 5*(1-top[i])) {
					wrong[i] = 1
				}
				weights[i] = 2
			}
		}
		newTop, newWrong := errorRows(rng, 200, .1)
		for i := range newWrong {
			if newWrong[i] = 0; rng.Float64() < min(1, 5*(1-newTop[i])) {
				newWrong[i] = 1
			}
		}
		c := ClassCalibration{Top: top, Ranks: wrong, Weights: weights}
		e, err := c.EstimateError(newTop, slices.Repeat([]float64{2}, 200), .95)
		c.Weights = nil
		unweighted, err2 := c.EstimateError(newTop, nil, .95)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		truth := meanWrong(newWrong)
		if e.Low <= truth && truth <= e.High {
			covered++
		}
		if unweighted.Low <= truth && truth <= unweighted.High {
			plain++
		}
	}
	if covered/draws < .94 || plain/draws > .8 {
		t.Errorf("%.3f covered with weights and %.3f without", covered/draws, plain/draws)
	}
}

func TestEstimateErrorRefuses(t *testing.T) {
	top, wrong := errorRows(rand.New(rand.NewPCG(1, 1)), 100, .4)
	good := ClassCalibration{Top: top, Ranks: wrong}
	few := make([]int, 100)
	few[3], few[50] = 1, 2
	if e, err := (ClassCalibration{Top: top, Ranks: few}).EstimateError(top, nil, .95); !errors.Is(err, ErrFewErrors) || e.Wrong != 2 {
		t.Errorf("with two errors: %v, %v", e, err)
	}
	weighted := ClassCalibration{Top: top, Ranks: wrong, Weights: slices.Repeat([]float64{1}, 100)}
	short := ClassCalibration{Top: top, Ranks: wrong[1:]}
	for i, c := range []struct {
		calibration  ClassCalibration
		top, weights []float64
		confidence   float64
	}{
		{good, nil, nil, .95}, {good, []float64{math.NaN()}, nil, .95}, {good, []float64{1.1}, nil, .95}, {good, top, nil, 1}, {good, top, top, .95}, {weighted, top, nil, .95},
		{weighted, top[:1], []float64{-1}, .95}, {weighted, top[:1], top[:2], .95}, {short, top, nil, .95}, {ClassCalibration{}, top, nil, .95},
	} {
		if e, err := c.calibration.EstimateError(c.top, c.weights, c.confidence); err == nil {
			t.Errorf("%d: %v", i, e)
		}
	}
}
