package baselines_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

var treeMethods = []ood.Method{method("gradient-boosting"), method("quantile-forest")}

// stepRows returns rows x with three inputs and two targets. The first target is y = ⌊x₀⌋ +
// (1 + 1{x₁ > 0})·noise, and the second is −10·y.
func stepRows(n int, seed uint64) (x, y blas32.General) {
	rng := rand.New(rand.NewPCG(seed, 1))
	x = blas32.General{Rows: n, Cols: 3, Stride: 4, Data: make([]float32, 4*n)}
	y = blas32.General{Rows: n, Cols: 2, Stride: 3, Data: make([]float32, 3*n)}
	for i := range n {
		row := x.Data[4*i : 4*i+4]
		row[0], row[1], row[2] = 3*rng.Float32(), 2*rng.Float32()-1, rng.Float32()
		row[3] = float32(math.NaN()) // this gap after the three columns must be ignored
		v := float32(math.Floor(float64(row[0])) + noiseDeviation(row)*rng.NormFloat64())
		y.Data[3*i], y.Data[3*i+1] = v, -10*v
	}
	return x, y
}

// regression returns training data for an interval method. The default levels are 0.1, 0.5
// and 0.9.
func regression(x, y blas32.General, levels ...float64) ood.Training {
	if levels == nil {
		levels = []float64{.1, .5, .9}
	}
	return ood.Training{Batch: ood.Batch{Features: x}, Targets: y, Levels: levels, Trainer: randomTrainer{}}
}

func noiseDeviation(row []float32) float64 {
	if row[1] > 0 {
		return 2
	}
	return 1
}

func TestTreesFindQuantiles(t *testing.T) {
	x, y := stepRows(3000, 1)
	test, _ := stepRows(400, 2)
	levels := []float64{0.1, 0.5, 0.9}
	for _, m := range treeMethods {
		for _, bins := range []float64{-1, 100} {
			model, err := fitting.Fit(background, m, regression(x, y), ood.Params{"min_samples_leaf": 75., "bins": bins})
			if err != nil {
				t.Fatal(err)
			}
			q := model.Quantiles(test, levels)
			for target, factor := range []float64{1, -10} {
				var off float64
				for i := range test.Rows {
					row := test.Data[i*test.Stride:]
					d := distuv.Normal{Mu: math.Floor(float64(row[0])), Sigma: noiseDeviation(row)}
					for l, tau := range levels {
						want := d.Quantile(tau)
						if factor < 0 {
							want = factor * d.Quantile(1-tau)
						}
						off += math.Abs(float64(q.Row(i, target)[l])-want) / math.Abs(factor) / float64(test.Rows*len(levels))
					}
				}
				if off > 0.25 {
					t.Errorf("%s, bins %v: quantiles of target %d are off by %.3f in the mean", m.Name, bins, target, off)
				}
			}
		}
	}
}

// TestBoostingBetweenLevels checks that quantiles are linear between the fitted levels and
// constant beyond them.
func TestBoostingBetweenLevels(t *testing.T) {
	x, y := stepRows(300, 7)
	model, err := fitting.Fit(background, method("gradient-boosting"), regression(x, y, .2, .6), nil)
	if err != nil {
		t.Fatal(err)
	}
	q := model.Quantiles(x, []float64{0.1, 0.2, 0.3, 0.6, 0.7})
	for i := range q.Rows {
		row := q.Row(i, 0)
		if got, want := row[2], row[1]+0.25*(row[3]-row[1]); math.Abs(float64(got-want)) > 1e-5 {
			t.Fatalf("row %d: %v between the levels, want %v", i, got, want)
		}
		if row[0] != row[1] || row[4] != row[3] {
			t.Fatalf("row %d: the tails are not those of the nearest level", i)
		}
	}
}

// TestSymmetricBoosting checks that quantiles are symmetric about the median of the targets, and
// that their distance from it follows the noise.
func TestSymmetricBoosting(t *testing.T) {
	x, y := stepRows(2000, 3)
	for i := range y.Rows { // noise about 5 remains, with the deviation of the row
		y.Data[i*y.Stride] += 5 - float32(math.Floor(float64(x.Data[i*x.Stride])))
	}
	m := method("symmetric-boosting")
	model, err := fitting.Fit(background, m, regression(x, y), ood.Params{"min_samples_leaf": 75.})
	if err != nil {
		t.Fatal(err)
	}
	q := model.Quantiles(x, []float64{0.1, 0.3, 0.5, 0.7, 0.9})
	off := 0.
	for i := range q.Rows {
		at := q.Row(i, 0)
		for l, v := range at {
			if sum := v + at[len(at)-1-l] - 2*at[2]; math.Abs(float64(sum)) > 1e-5 {
				t.Fatalf("row %d: the quantiles %v are not symmetric", i, at)
			}
		}
		want := distuv.Normal{Mu: 5, Sigma: noiseDeviation(x.Data[i*x.Stride:])}.Quantile(0.9)
		off += math.Abs(float64(at[4])-want) / float64(q.Rows)
	}
	if off > 0.25 {
		t.Errorf("the quantile 0.9 is off by %.3f in the mean", off)
	}
	extreme, err := fitting.Fit(background, m, regression(x, y, 1e-13), ood.Params{"n_estimators": 1.})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fitting.Restore(m, extreme.State()); err != nil {
		t.Errorf("a model of an extreme level cannot be restored: %v", err)
	}
	if _, err := fitting.Fit(background, m, regression(x, y, 0.5), nil); err == nil || !strings.Contains(err.Error(), "all levels are 0.5") {
		t.Errorf("the median alone: error %v", err)
	}
}
