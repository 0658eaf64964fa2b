package baselines_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/rows"
)

var treeMethods = []heads.QuantileMethod{baselines.Boosting, baselines.QuantileForest}

// steps is two targets of three inputs: y = ⌊x₀⌋ + (1 + 1{x₁ > 0})·noise, and
// minus ten times that.
func steps(n int, seed uint64) (x, y blas32.General) {
	rng := rand.New(rand.NewPCG(seed, 1))
	x = blas32.General{Rows: n, Cols: 3, Stride: 4, Data: make([]float32, 4*n)}
	y = blas32.General{Rows: n, Cols: 2, Stride: 3, Data: make([]float32, 3*n)}
	for i := range n {
		row := x.Data[4*i : 4*i+4]
		row[0], row[1], row[2] = 3*rng.Float32(), 2*rng.Float32()-1, rng.Float32()
		row[3] = float32(math.NaN()) // beyond the columns
		v := float32(math.Floor(float64(row[0])) + stepsNoise(row)*rng.NormFloat64())
		y.Data[3*i], y.Data[3*i+1] = v, -10*v
	}
	return x, y
}

func stepsNoise(row []float32) float64 {
	if row[1] > 0 {
		return 2
	}
	return 1
}

func TestTreesFindQuantiles(t *testing.T) {
	x, y := steps(6000, 1)
	test, _ := steps(400, 2)
	levels := []float64{0.1, 0.5, 0.9}
	for _, m := range treeMethods {
		for _, bins := range []float64{-1, 100} {
			model, err := m.Fit(background, heads.Regression{X: x, Y: y, Levels: levels}, map[string]any{"min_samples_leaf": 150., "bins": bins})
			if err != nil {
				t.Fatal(err)
			}
			q := model.Quantiles(test, levels)
			for target, factor := range []float64{1, -10} {
				var off float64
				for i := range test.Rows {
					row := test.Data[i*test.Stride:]
					d := distuv.Normal{Mu: math.Floor(float64(row[0])), Sigma: stepsNoise(row)}
					for l, tau := range levels {
						want := d.Quantile(tau)
						if factor < 0 {
							want = factor * d.Quantile(1-tau)
						}
						off += math.Abs(q.At(i, target, l)-want) / math.Abs(factor) / float64(test.Rows*len(levels))
					}
				}
				if off > 0.25 {
					t.Errorf("%s, bins %v: quantiles of target %d are off by %.3f in the mean", m.Name, bins, target, off)
				}
			}
		}
	}
}

func TestTreesKeepTheContract(t *testing.T) {
	x, y := steps(300, 3)
	test, _ := steps(50, 4)
	for _, m := range treeMethods {
		t.Run(m.Name, func(t *testing.T) {
			if got, ok := baselines.QuantileByName(m.Name); !ok || got.Doc == "" || got.Ref == "" {
				t.Error("not in the list, or without a word about it")
			}
			var last float64
			r := heads.Regression{X: x, Y: y, Levels: []float64{0.9, 0.1, 0.5, 0.1}, Seed: 3, Progress: func(share float64) {
				if share < last || share > 1 {
					t.Errorf("progress %v after %v", share, last)
				}
				last = share
			}}
			params := map[string]any{"n_estimators": 20., "max_features": 0.4}
			model, err := m.Fit(background, r, params)
			if err != nil {
				t.Fatal(err)
			}
			if last != 1 {
				t.Errorf("progress ends at %v", last)
			}
			r.Progress = nil
			if _, err := m.Fit(background, r, m.Default); err != nil {
				t.Errorf("default: %v", err)
			}
			levels := []float64{0.001, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999}
			q := model.Quantiles(test, levels)
			for i := range q.Rows {
				for target := range q.Targets {
					if !slices.IsSorted(q.Row(i, target)) {
						t.Fatalf("the quantiles of row %d cross: %v", i, q.Row(i, target))
					}
				}
			}
			one := model.Quantiles(slice(test, 7, 8), []float64{0.7})
			if one.At(0, 1, 0) != q.At(7, 1, 5) {
				t.Error("a quantile depends on the rows or levels beside it")
			}
			spoilt := slice(test, 0, 2)
			spoilt.Data = slices.Clone(spoilt.Data)
			spoilt.Data[1] = float32(math.NaN())
			if s := model.Quantiles(spoilt, levels); !math.IsNaN(s.At(0, 1, 3)) || s.At(1, 1, 3) != q.At(1, 1, 3) {
				t.Error("NaN does not stay in its row")
			}
			if empty := model.Quantiles(blas32.General{Cols: 3, Stride: 4}, levels); empty.Rows != 0 || len(empty.Data) != 0 {
				t.Error("no rows have quantiles")
			}
			again, err := m.Fit(background, r, params)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(again.Quantiles(test, levels).Data, q.Data) {
				t.Error("a second fit with the same seed predicts otherwise")
			}
			defer func() {
				if recover() == nil {
					t.Error("rows of the wrong width are taken")
				}
			}()
			model.Quantiles(y, levels)
		})
	}
}

func TestTreesFitGridsAsOneByOne(t *testing.T) {
	x, y := steps(200, 5)
	test, _ := steps(30, 6)
	levels := []float64{0.1, 0.9}
	seeds := []uint64{4, 8}
	sizes := map[string]int{"gradient-boosting": 162, "quantile-forest": 12}
	for _, m := range treeMethods {
		if got := len(m.Grid); got != sizes[m.Name] {
			t.Errorf("%s: a grid of %d, the paper's has %d", m.Name, got, sizes[m.Name])
		}
		var grid []map[string]any
		for g := 0; g < len(m.Grid); g += len(m.Grid) / 6 {
			p := map[string]any{"max_features": 0.5}
			for k, v := range m.Grid[g] {
				p[k] = v
			}
			p["n_estimators"] = p["n_estimators"].(float64) / 50
			grid = append(grid, p, m.Grid[0])
		}
		r := heads.Regression{X: x, Y: y, Levels: levels}
		together, err := m.FitGrid(background, r, seeds, grid)
		if err != nil {
			t.Fatal(err)
		}
		for s, seed := range seeds {
			r.Seed = seed
			for g, params := range grid {
				alone, err := m.Fit(background, r, params)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(alone.Quantiles(test, levels).Data, together[s][g].Quantiles(test, levels).Data) {
					t.Errorf("%s %v: in a grid it predicts otherwise", m.Name, params)
				}
			}
		}
	}
}

// Between the fitted levels boosting is linear, outside of them constant.
func TestBoostingBetweenLevels(t *testing.T) {
	x, y := steps(300, 7)
	model, err := baselines.Boosting.Fit(background, heads.Regression{X: x, Y: y, Levels: []float64{0.2, 0.6}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	q := model.Quantiles(x, []float64{0.1, 0.2, 0.3, 0.6, 0.7})
	for i := range q.Rows {
		if got, want := q.At(i, 0, 2), q.At(i, 0, 1)+0.25*(q.At(i, 0, 3)-q.At(i, 0, 1)); math.Abs(got-want) > 1e-5 {
			t.Fatalf("row %d: %v between the levels, want %v", i, got, want)
		}
		if q.At(i, 0, 0) != q.At(i, 0, 1) || q.At(i, 0, 4) != q.At(i, 0, 3) {
			t.Fatalf("row %d: the tails are not those of the nearest level", i)
		}
	}
}

func TestTreesRefuse(t *testing.T) {
	x, y := steps(20, 8)
	spoilt, _ := steps(20, 8)
	spoilt.Data[6] = float32(math.Inf(1))
	var notFinite *rows.NotFiniteError
	var tooFew *rows.TooFewRowsError
	cancelled, cancel := context.WithCancel(background)
	cancel()
	for _, m := range treeMethods {
		if _, err := m.Fit(background, heads.Regression{X: spoilt, Y: y}, nil); !errors.As(err, &notFinite) || notFinite.Col != 2 {
			t.Errorf("%s: infinite input: %v", m.Name, err)
		}
		if _, err := m.Fit(background, heads.Regression{X: blas32.General{Cols: 3, Stride: 3}, Y: y}, nil); !errors.As(err, &tooFew) {
			t.Errorf("%s: no rows: %v", m.Name, err)
		}
		if _, err := m.Fit(cancelled, heads.Regression{X: x, Y: y}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: cancelled: %v", m.Name, err)
		}
		if _, err := m.Fit(background, heads.Regression{X: x, Y: slice(y, 0, 19)}, nil); err == nil {
			t.Errorf("%s: fewer targets than inputs are taken", m.Name)
		}
		for _, p := range []map[string]any{
			{"n_estimators": 0.}, {"n_estimators": 1e6 + 1}, {"max_depth": -1.}, {"min_samples_split": 1.}, {"min_samples_leaf": 0.}, {"max_features": 2.},
			{"bins": 300.}, {"depth": 3.}, {"n_estimators": 1.5},
		} {
			if _, err := m.Fit(background, heads.Regression{X: x, Y: y}, p); err == nil {
				t.Errorf("%s takes %v", m.Name, p)
			}
		}
	}
	if _, err := baselines.Boosting.Fit(background, heads.Regression{X: x, Y: y, Levels: []float64{1}}, nil); err == nil {
		t.Error("boosting takes the level 1")
	}
}
