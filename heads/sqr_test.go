package heads

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/heads/train"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/internal/rows"
)

func fitSQR(t *testing.T, x, y blas32.General, o SQROptions) (*SQR, *recorder) {
	t.Helper()
	tr := &recorder{}
	s, err := FitSQR(context.Background(), x, y, tr, o)
	if err != nil {
		t.Fatal(err)
	}
	return s, tr
}

func TestFitSQRProblem(t *testing.T) {
	x, y := randomRows(300, 4, 50, 1), randomRows(300, 2, -7, 2)
	for i := range 300 {
		x.Data[i*x.Stride+3] = 0.1 // a constant column
	}
	s, tr := fitSQR(t, x, y, SQROptions{Hidden: []int{8, 5}, Seed: 11, WeightDecay: 0.1, Decoupled: true, Dropout: 0.25})
	p := tr.problems[0]
	want := []train.ModelConfig{
		{Seed: 11, LearningRate: 1e-3, WeightDecay: 0.1, Decoupled: true, Dropout: 0.25, Target: 0},
		{Seed: 12, LearningRate: 1e-3, WeightDecay: 0.1, Decoupled: true, Dropout: 0.25, Target: 1},
	}
	if !reflect.DeepEqual(p.Models, want) {
		t.Errorf("models %+v, want %+v", p.Models, want)
	}
	if !p.Conditional || p.Loss != train.Pinball || p.Levels != nil || p.Outputs != 1 || p.NoBias || p.BatchSize != 64 || p.Epochs != 500 {
		t.Errorf("problem %+v", p)
	}
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

// Quantiles agree with the networks run as a whole on rows with the level
// appended, for every depth.
func TestQuantilesAgainstNetwork(t *testing.T) {
	x, y := randomRows(150, 3, 5, 1), randomRows(150, 2, 100, 2)
	for _, hidden := range [][]int{{}, {7}, {6, 5}} {
		s, _ := fitSQR(t, x, y, SQROptions{Hidden: hidden, Seed: 3})
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
				unsorted := s.Unsorted(rows.Slice(x, i, i+1), s.Grid)
				for l := range want {
					if d := math.Abs(unsorted.At(0, target, l) - want[l]); d > 1e-4*s.Y.Scale[target] {
						t.Fatalf("hidden %v, row %d, target %d, level %v: %v unsorted, want %v", hidden, i, target, s.Grid[l], unsorted.At(0, target, l), want[l])
					}
				}
				slices.Sort(want)
				for l := range want {
					if d := math.Abs(grid.At(i, target, l) - want[l]); d > 1e-4*s.Y.Scale[target] {
						t.Fatalf("hidden %v, row %d, target %d, level %v: %v, want %v", hidden, i, target, s.Grid[l], grid.At(i, target, l), want[l])
					}
				}
			}
		}
		one := s.CrossingRate(x)
		if len(hidden) > 0 && (crossed/pairs > 0) != (one > 0) || one < 0 || one > 1 {
			t.Errorf("hidden %v: crossing rate %v, %v on a few rows", hidden, one, crossed/pairs)
		}
	}
}

// A linear network's quantiles are known, and so is their mean.
func TestQuantilesClosedForm(t *testing.T) {
	s := &SQR{Grid: defaultGrid(), RegressionNetworks: RegressionNetworks{
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
			tau = min(tau, 0.999) // constant beyond the grid
			want := -3 + 2*(1+2*at+0.25*12*(tau-0.5))
			if math.Abs(q.At(i, 0, l)-want) > 1e-5 {
				t.Errorf("row %d, level %v: %v, want %v", i, tau, q.At(i, 0, l), want)
			}
		}
		if want := -3 + 2*(1+2*at); math.Abs(float64(s.Mean(x).Data[i])-want) > 1e-5 {
			t.Errorf("row %d: mean %v, want %v", i, s.Mean(x).Data[i], want)
		}
	}
	if r := s.CrossingRate(x); r != 0 {
		t.Errorf("crossing rate %v, want 0", r)
	}
	s.Networks[0].Layers[0].W.Data[1] = -0.25
	if r := s.CrossingRate(x); r != 1 {
		t.Errorf("crossing rate %v, want 1", r)
	}
	if again := s.Quantiles(x, levels); math.Abs(again.At(0, 0, 0)-q.At(0, 0, 0)) > 1e-5 {
		t.Errorf("sorted quantiles of the reversed network are %v, want %v", again.Data, q.Data)
	}
}

func TestQuantilesNeverCross(t *testing.T) {
	x, y := randomRows(90, 3, 0, 1), randomRows(90, 1, 0, 2)
	s, _ := fitSQR(t, x, y, SQROptions{Seed: 5})
	if s.CrossingRate(x) == 0 {
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
		if alone.At(i, 0, 0) != q.At(i, 0, 17) {
			t.Fatalf("row %d: the quantile at %v is %v alone and %v beside others", i, levels[17], alone.At(i, 0, 0), q.At(i, 0, 17))
		}
	}
}

func TestSQRLevels(t *testing.T) {
	x, y := randomRows(90, 3, 0, 1), randomRows(90, 1, 0, 2)
	s, tr := fitSQR(t, x, y, SQROptions{Levels: []float64{0.975, 0.025}})
	if want := []float64{0.025, 0.975}; !slices.Equal(s.Grid, want) || !slices.Equal(tr.problems[0].Levels, want) {
		t.Errorf("grid %v, trained on %v, want %v", s.Grid, tr.problems[0].Levels, want)
	}
	q := s.Quantiles(x, []float64{0.001, 0.025, 0.5, 0.975})
	for i := range x.Rows {
		row := q.Row(i, 0)
		if row[0] != row[1] || math.Abs(float64(row[2]-(row[1]+row[3])/2)) > 1e-6 {
			t.Fatalf("row %d: %v", i, row)
		}
	}
}

func TestSQRState(t *testing.T) {
	x, y := randomRows(90, 3, 0, 1), randomRows(90, 2, 4, 2)
	s, _ := fitSQR(t, x, y, SQROptions{Hidden: []int{6, 4}})
	restored := &SQR{}
	if err := rows.Restore(restored, s.State(), nil); err != nil {
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
		st := s.State()
		spoil(st)
		if err := rows.Restore(&SQR{}, st, nil); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestFitSQRRefuses(t *testing.T) {
	x, y := randomRows(20, 3, 0, 1), randomRows(20, 1, 0, 2)
	nan := randomRows(20, 1, 0, 2)
	nan.Data[nan.Stride*4] = float32(math.NaN())
	for name, tt := range map[string]struct {
		x, y blas32.General
		o    SQROptions
	}{
		"lengths":      {x: x, y: rows.Slice(y, 0, 19)},
		"NaN in y":     {x: x, y: nan},
		"NaN in x":     {x: nan, y: y},
		"no rows":      {x: rows.Slice(x, 0, 0), y: rows.Slice(y, 0, 0)},
		"one row":      {x: rows.Slice(x, 0, 1), y: rows.Slice(y, 0, 1)},
		"level":        {x: x, y: y, o: SQROptions{Levels: []float64{0, 0.5}}},
		"no levels":    {x: x, y: y, o: SQROptions{Levels: []float64{}}},
		"level twice":  {x: x, y: y, o: SQROptions{Levels: []float64{0.5, 0.5}}},
		"dropout":      {x: x, y: y, o: SQROptions{Dropout: 1}},
		"weight decay": {x: x, y: y, o: SQROptions{WeightDecay: -1}},
		"hidden":       {x: x, y: y, o: SQROptions{Hidden: []int{3, 0}}},
		"batch":        {x: x, y: y, o: SQROptions{BatchSize: -1}},
		"rate":         {x: x, y: y, o: SQROptions{LearningRate: math.NaN()}},
	} {
		if _, err := FitSQR(context.Background(), tt.x, tt.y, &recorder{}, tt.o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	var notFinite *rows.NotFiniteError
	_, err := FitSQR(context.Background(), x, nan, &recorder{}, SQROptions{})
	if !errors.As(err, &notFinite) || notFinite.Name != "y" || notFinite.Row != 4 {
		t.Errorf("error %v, want one that names y and row 4", err)
	}
	if _, err := FitSQR(context.Background(), x, y, nil, SQROptions{}); err == nil {
		t.Error("no trainer was accepted")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := FitSQR(ctx, x, y, &recorder{}, SQROptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

func BenchmarkQuantiles(b *testing.B) {
	x, y := randomRows(1024, 512, 0, 1), randomRows(1024, 1, 0, 2)
	s, err := FitSQR(context.Background(), x, y, &recorder{}, SQROptions{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s.Quantiles(x, []float64{0.05, 0.5, 0.95})
	}
}
