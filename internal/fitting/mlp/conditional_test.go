package mlp

import (
	"context"
	"math"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/headstest"
)

// halfPercents returns the levels 0.5 %, 1 %, … 99.5 %.
func halfPercents() []float64 {
	var levels []float64
	for i := 1; i < 200; i++ {
		levels = append(levels, float64(i)/200)
	}
	return levels
}

func fitConditional(t testing.TB, x, y blas32.General, hidden ...int) (*Conditional, *headstest.Recorder) {
	t.Helper()
	tr := &headstest.Recorder{}
	fitted, err := Fit(context.Background(), x, y, tr, train.Problem{
		Hidden: hidden, Outputs: 1, Loss: "pinball", Conditional: true, Epochs: 3, BatchSize: 64, Models: []train.ModelConfig{{Seed: 11}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &Conditional{fitted[0], halfPercents()}, tr
}

func TestFitStandardises(t *testing.T) {
	x, y := headstest.Rows(300, 4, 50, 1), headstest.Rows(300, 2, -7, 2)
	for i := range 300 {
		x.Data[i*x.Stride+3] = 0.1 // this column is constant
	}
	s, tr := fitConditional(t, x, y, 8, 5)
	p := tr.Problems[0]
	for name, m := range map[string]blas32.General{"x": p.X, "y": p.Y} {
		for j := range m.Cols {
			col := make([]float64, m.Rows)
			for i := range col {
				col[i] = float64(m.Data[i*m.Stride+j])
			}
			mean, sd := stat.PopMeanStdDev(col, nil)
			wantSD := 1.0
			if name == "x" && j == 3 {
				wantSD = 0
			}
			if math.Abs(mean) > 1e-5 || math.Abs(sd-wantSD) > 1e-5 {
				t.Errorf("column %d of %s has mean %v and deviation %v", j, name, mean, sd)
			}
		}
	}
	if s.X.Scale[3] != 1 {
		t.Errorf("constant column has scale %v", s.X.Scale[3])
	}
	before := s.Quantiles(x, []float64{0.3})
	for i := range 300 {
		x.Data[i*x.Stride+3] = 99
	}
	if !reflect.DeepEqual(s.Quantiles(x, []float64{0.3}), before) {
		t.Error("a column that was constant in the fit changes predictions")
	}
}

// TestQuantilesAgainstNetwork checks quantiles against direct runs of the network on rows
// with an appended level, for several depths.
func TestQuantilesAgainstNetwork(t *testing.T) {
	x, y := headstest.Rows(150, 3, 5, 1), headstest.Rows(150, 2, 100, 2)
	for _, hidden := range [][]int{{}, {7}, {6, 5}} {
		s, _ := fitConditional(t, x, y, hidden...)
		grid := s.Quantiles(x, s.Grid)
		var crossed, pairs float64
		for _, i := range []int{0, 79, 80, 81, 149} {
			for target, n := range s.Networks {
				in := rows.New(len(s.Grid), 4)
				for l, tau := range s.Grid {
					for j := range 3 {
						in.Data[l*4+j] = float32((float64(x.Data[i*x.Stride+j]) - s.X.Mean[j]) / s.X.Scale[j])
					}
					in.Data[l*4+3] = float32((tau - 0.5) * 12)
				}
				want := make([]float64, len(s.Grid))
				for l, v := range n.Apply(in).Data {
					want[l] = s.Y.Mean[target] + s.Y.Scale[target]*float64(v)
					if l > 0 && want[l] < want[l-1] {
						crossed++
					}
					pairs++
				}
				slices.Sort(want)
				for l := range want {
					if d := math.Abs(float64(grid.Row(i, target)[l]) - want[l]); d > 1e-4*s.Y.Scale[target] {
						t.Fatalf("hidden %v, row %d, target %d, level %v: %v, want %v", hidden, i, target, s.Grid[l], grid.Row(i, target)[l], want[l])
					}
				}
			}
		}
		rate := crossingRate(s, x)
		if len(hidden) > 0 && (crossed/pairs > 0) != (rate > 0) || rate < 0 || rate > 1 {
			t.Errorf("hidden %v: crossing rate %v, %v on a few rows", hidden, rate, crossed/pairs)
		}
	}
}

// TestQuantilesClosedForm checks the quantiles of a linear network against a closed form.
func TestQuantilesClosedForm(t *testing.T) {
	s := &Conditional{Grid: halfPercents(), Regression: Regression{
		Networks: []train.Network{{Layers: []train.Layer{{
			W: blas32.General{Rows: 2, Cols: 1, Stride: 1, Data: []float32{2, 0.25}}, B: []float32{1},
		}}}},
		X: Standard{Mean: []float64{10}, Scale: []float64{4}},
		Y: Standard{Mean: []float64{-3}, Scale: []float64{2}},
	}}
	x := blas32.General{Rows: 2, Cols: 1, Stride: 1, Data: []float32{10, 18}}
	levels := []float64{0.9, 0.1234, 0.9999, 0.5}
	q := s.Quantiles(x, levels)
	for i, at := range []float64{0, 2} {
		for l, tau := range levels {
			tau = min(tau, 0.995) // quantiles are constant beyond the last grid level
			want := -3 + 2*(1+2*at+0.25*12*(tau-0.5))
			if math.Abs(float64(q.Row(i, 0)[l])-want) > 1e-5 {
				t.Errorf("row %d, level %v: %v, want %v", i, tau, q.Row(i, 0)[l], want)
			}
		}
	}
	if r := crossingRate(s, x); r != 0 {
		t.Errorf("crossing rate %v, want 0", r)
	}
	s.Networks[0].Layers[0].W.Data[1] = -0.25
	if r := crossingRate(s, x); r != 1 {
		t.Errorf("crossing rate %v, want 1", r)
	}
	if again := s.Quantiles(x, levels); math.Abs(float64(again.Row(0, 0)[0]-q.Row(0, 0)[0])) > 1e-5 {
		t.Errorf("sorted quantiles of the reversed network are %v, want %v", again.Data, q.Data)
	}
}

func TestQuantilesNeverCross(t *testing.T) {
	x, y := headstest.Rows(90, 3, 0, 1), headstest.Rows(90, 1, 0, 2)
	s, _ := fitConditional(t, x, y, 64)
	if crossingRate(s, x) == 0 {
		t.Fatal("the networks of this test do not cross: it tests nothing")
	}
	var levels []float64
	for tau := 0.0001; tau < 1; tau += 0.0037 {
		levels = append(levels, tau)
	}
	q := s.Quantiles(x, levels)
	for i := range x.Rows {
		if !slices.IsSorted(q.Row(i, 0)) {
			t.Fatalf("quantiles of row %d cross", i)
		}
	}
	alone := s.Quantiles(x, levels[17:18])
	for i := range x.Rows {
		if alone.Row(i, 0)[0] != q.Row(i, 0)[17] {
			t.Fatalf("row %d: the quantile at %v is %v alone and %v beside others", i, levels[17], alone.Row(i, 0)[0], q.Row(i, 0)[17])
		}
	}
}

func TestConditionalState(t *testing.T) {
	x, y := headstest.Rows(90, 3, 0, 1), headstest.Rows(90, 2, 4, 2)
	s, _ := fitConditional(t, x, y, 6, 4)
	restored := &Conditional{}
	if err := rows.Restore(restored, rows.Save(s), nil); err != nil {
		t.Fatal(err)
	}
	levels := []float64{0.05, 0.33, 0.95}
	if a, b := s.Quantiles(x, levels), restored.Quantiles(x, levels); !reflect.DeepEqual(a, b) {
		t.Error("restored quantile regression predicts otherwise")
	}
	for name, spoil := range map[string]func(rows.State){
		"no grid":         func(st rows.State) { delete(st.Arrays, "grid") },
		"unordered grid":  func(st rows.State) { st.Arrays["grid"] = rows.Vector([]float64{0.5, 0.1}) },
		"zero scale":      func(st rows.State) { st.Arrays["x.scale"] = rows.Vector([]float64{1, 0, 1}) },
		"target too many": func(st rows.State) { st.Params["networks"] = 3. },
		"no layers":       func(st rows.State) { st.Params["networks.0.layers"] = 0. },
		"NaN weight":      func(st rows.State) { st.Arrays["networks.0.layers.0.weight"].Data.([]float32)[1] = float32(math.NaN()) },
		"layers misfit": func(st rows.State) {
			st.Arrays["networks.0.layers.1.weight"] = rows.Array{Shape: []int{5, 4}, Data: make([]float32, 20)}
		},
	} {
		st := rows.Save(s)
		spoil(st)
		if err := rows.Restore(&Conditional{}, st, nil); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func BenchmarkQuantiles(b *testing.B) {
	x, y := headstest.Rows(1024, 512, 0, 1), headstest.Rows(1024, 1, 0, 2)
	s, _ := fitConditional(b, x, y, 64)
	for b.Loop() {
		s.Quantiles(x, []float64{0.05, 0.5, 0.95})
	}
}

// crossingRate returns the fraction of pairs of adjacent grid levels for which the network
// outputs decrease, before sorting.
func crossingRate(s *Conditional, x blas32.General) float64 {
	crossed, pairs := 0., 0.
	for _, n := range s.Networks {
		grid := rows.New(x.Rows, len(s.Grid))
		newGridEvaluator(n, s.Grid, x.Rows).evaluate(grid, s.X.standardised(x))
		for i := range grid.Rows {
			row := rows.Row(grid, i)
			for l := range row[1:] {
				pairs++
				if row[l+1] < row[l] {
					crossed++
				}
			}
		}
	}
	return crossed / pairs
}
