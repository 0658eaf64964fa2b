package calibrate

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"
)

// weightedCalibration returns n rows with the predicted quantiles of a uniform distribution on
// [0,1] and normal targets. The weight of a target grows with it.
func weightedCalibration(r *rand.Rand, n int, tilt float64) QuantileCalibration {
	q := QuantileCalibration{Levels: []float64{.25, .75}}
	for range n {
		y := float32(r.NormFloat64())
		q.Grid, q.Y = append(q.Grid, .25, .75), append(q.Y, y)
		q.Weights = append(q.Weights, math.Exp(tilt*float64(y)))
	}
	return q
}

// mustPredictiveSystem returns the distribution of a row with the quantiles of all others.
func mustPredictiveSystem(t *testing.T, q QuantileCalibration) Distribution {
	t.Helper()
	system, err := q.PredictiveSystem()
	if err != nil {
		t.Fatal(err)
	}
	return system([]float32{.25, .75})
}

// TestWeightedDistribution checks that equal weights give the distribution without weights, that
// whole weights give that of copied rows, and quantiles and levels that are computed by hand.
func TestWeightedDistribution(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	equal := weightedCalibration(r, 20, 0)
	equal.Y[3], equal.Y[4] = equal.Y[5], equal.Y[5]
	for i := range equal.Weights {
		equal.Weights[i] = .7
	}
	plain := equal
	plain.Weights = nil
	a, b := mustPredictiveSystem(t, equal).WithWeight(.7), mustPredictiveSystem(t, plain)
	draws := [2][]float64{make([]float64, 50), make([]float64, 50)}
	a.Sample(draws[0], 1, 2)
	b.Sample(draws[1], 1, 2)
	for i := range 50 {
		level, tau, y := r.Float64(), r.Float64(), float64(equal.Y[i%20])
		if x, want := a.Quantile(level, tau), b.Quantile(level, tau); x != want {
			t.Errorf("the quantile at %v, %v is %v, and %v without weights", level, tau, x, want)
		}
		if x, want := a.CDF(y, tau), b.CDF(y, tau); math.Abs(x-want) > 1e-12 {
			t.Errorf("the level of %v is %v, and %v without weights", y, x, want)
		}
		if math.Abs(draws[0][i]-draws[1][i]) > 1e-9 {
			t.Errorf("draw %d is %v, and %v without weights", i, draws[0][i], draws[1][i])
		}
	}
	q := QuantileCalibration{Levels: []float64{.25, .75}, Grid: []float32{.25, .75, .25, .75, .25, .75}, Y: []float32{3, 1, 2}, Weights: []float64{1, 2, 3}}
	d := mustPredictiveSystem(t, q).WithWeight(4) // in order: 1 with weight 2, 2 with 3, 3 with 1; in all 10
	for _, c := range []struct{ y, tau, want float64 }{{1, 0, 0}, {1, 1, .6}, {1.5, 0, .2}, {1.5, .5, .4}, {2, 1, .9}, {4, 0, .6}} {
		if got := d.CDF(c.y, c.tau); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Q(%v, %v) is %v, want %v", c.y, c.tau, got, c.want)
		}
	}
	for _, c := range []struct{ level, tau, want float64 }{{.2, 0, 1}, {.21, 0, 2}, {.6, 0, 3}, {.61, 0, math.Inf(1)}, {.4, 1, math.Inf(-1)}, {.41, 1, 1}, {.95, 1, 3}} {
		if got := d.Quantile(c.level, c.tau); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("the quantile at %v, %v is %v, want %v", c.level, c.tau, got, c.want)
		}
	}
	unknown := mustPredictiveSystem(t, q)
	unknown.Sample(draws[0], 1, 1)
	for _, v := range draws[0] {
		if !math.IsInf(v, 0) {
			t.Fatalf("a row without a weight has the draw %v", v)
		}
	}
}

// TestWeightedSamples checks the mean of draws after a shift: normal targets with weights
// exp(t·y) have mean t.
func TestWeightedSamples(t *testing.T) {
	const tilt = .8
	r := rand.New(rand.NewPCG(2, 6))
	d := mustPredictiveSystem(t, weightedCalibration(r, 4000, tilt)).WithWeight(1)
	draws := make([]float64, 4000)
	d.Sample(draws, 3, 4)
	mean, deviation := stat.MeanStdDev(draws, nil)
	if math.Abs(mean-tilt) > .08 || math.Abs(deviation-1) > .08 {
		t.Errorf("draws have mean %.3f and deviation %.3f, want %g and 1", mean, deviation, tilt)
	}
}
