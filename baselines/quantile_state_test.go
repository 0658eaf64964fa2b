package baselines_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/heads/train"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/rows"
)

// randomTrainer returns networks of the shape asked for with weights as they
// are drawn: what is stored of a network does not depend on what it learnt.
type randomTrainer struct{}

func (randomTrainer) Train(_ context.Context, p train.Problem) ([]train.Network, error) {
	networks := make([]train.Network, len(p.Models))
	for m := range networks {
		rng := rand.New(rand.NewPCG(p.Models[m].Seed, uint64(m)))
		in := p.X.Cols
		if p.Conditional {
			in++
		}
		for _, out := range append(slices.Clone(p.Hidden), p.Outputs) {
			l := train.Layer{W: blas32.General{Rows: in, Cols: out, Stride: out, Data: make([]float32, in*out)}, B: make([]float32, out)}
			for _, data := range [][]float32{l.W.Data, l.B} {
				for i := range data {
					data[i] = float32(rng.NormFloat64())
				}
			}
			networks[m].Layers = append(networks[m].Layers, l)
			in = out
		}
	}
	return networks, nil
}

func fitSmallQuantiles(t testing.TB, m heads.QuantileMethod) (heads.QuantileRegressor, blas32.General) {
	t.Helper()
	params := map[string]any{"hidden": 5., "layers": 2.}
	if !m.NeedsTrainer {
		params = map[string]any{"n_estimators": 3., "max_depth": 3.}
	}
	x, y := steps(60, 1)
	model, err := m.Fit(background, heads.Regression{X: x, Y: y, Trainer: randomTrainer{}, Levels: []float64{0.1, 0.9}, Seed: 1<<40 + 7}, params)
	if err != nil {
		t.Fatal(err)
	}
	return model, x
}

// Every method comes back from its state, by way of JSON for what is not an
// array, and predicts what it did.
func TestQuantileMethodsComeBackFromTheirState(t *testing.T) {
	for _, m := range baselines.QuantileMethods {
		t.Run(m.Name, func(t *testing.T) {
			model, x := fitSmallQuantiles(t, m)
			state := model.(rows.Stater).State()
			back, err := m.Restore(throughJSON(t, state))
			if err != nil {
				t.Fatal(err)
			}
			levels := []float64{0.05, 0.1, 0.4, 0.9}
			want := model.Quantiles(x, levels).Data
			for i, v := range back.Quantiles(x, levels).Data {
				// Products of matrices round by where their memory lies.
				if d := math.Abs(float64(v - want[i])); !(d <= 1e-5*max(1, math.Abs(float64(v)))) {
					t.Fatalf("restored, it predicts %v, not %v", v, want[i])
				}
			}
			if fmt.Sprint(back.(rows.Stater).State()) != fmt.Sprint(state) {
				t.Error("the state of the restored differs")
			}
		})
	}
}

// A state with a part missing, of another type or shape, is refused. One whose
// numbers were changed is refused, or predicts something; nothing panics.
func TestTamperedQuantileMethods(t *testing.T) {
	for _, m := range baselines.QuantileMethods {
		t.Run(m.Name, func(t *testing.T) {
			model, x := fitSmallQuantiles(t, m)
			x.Rows = 2
			whole := model.(rows.Stater).State()
			refused := func(what string, s rows.State) {
				t.Helper()
				if r, err := m.Restore(s); err == nil || r != nil {
					t.Errorf("restores with %s: %v, %v", what, r, err)
				}
			}
			refused("nothing", rows.State{})
			for name := range whole.Params {
				for _, v := range []any{nil, []string{"x"}, math.NaN(), -1.} {
					if name == "learning_rate" && v == -1. {
						continue // a factor like any other
					}
					s := throughJSON(t, whole)
					s.Params[name] = v
					refused(fmt.Sprintf("parameter %q = %v", name, v), s)
				}
			}
			for name, a := range whole.Arrays {
				for _, broken := range []rows.Array{
					{},
					{Shape: []int{len(a.Shape)}, Data: []uint8{1}},
					{Shape: append(slices.Clone(a.Shape), 2), Data: a.Data},
					{Shape: slices.Repeat([]int{0}, len(a.Shape)), Data: a.Data},
					{Shape: slices.Repeat([]int{-1}, len(a.Shape)), Data: a.Data},
					{Shape: slices.Repeat([]int{1 << 40}, len(a.Shape)), Data: a.Data},
				} {
					s := throughJSON(t, whole)
					s.Arrays[name] = broken
					refused(fmt.Sprintf("array %q of shape %v, %T", name, broken.Shape, broken.Data), s)
				}
				s := throughJSON(t, whole)
				delete(s.Arrays, name)
				refused("no array "+name, s)
				for at := range min(shapeSize(a.Shape), 6) {
					for _, v := range []float64{math.NaN(), math.Inf(1), -1, 0, 7, 1e9} {
						s := throughJSON(t, whole)
						setEntry(s.Arrays[name], at, v)
						if r, err := m.Restore(s); err == nil && columnsOf(s) == x.Cols {
							r.Quantiles(x, []float64{0.1, 0.5})
						}
					}
				}
			}
		})
	}
}

func shapeSize(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func columnsOf(s rows.State) int {
	if c, ok := s.Params["columns"].(float64); ok {
		return int(c)
	}
	return s.Arrays["x.mean"].Shape[0]
}

func setEntry(a rows.Array, at int, v float64) {
	switch data := a.Data.(type) {
	case []float32:
		data[at] = float32(v)
	case []float64:
		data[at] = v
	case []int64:
		data[at] = int64(v)
	}
}

// Ends of an interval and dropout rates that no fit can have had are refused.
func TestRestoredQuantileParameters(t *testing.T) {
	model, _ := fitSmallQuantiles(t, baselines.QualityDriven)
	dropped, _ := fitSmallQuantiles(t, baselines.DropoutQuantiles)
	s := dropped.(rows.Stater).State()
	s.Params["dropout"] = 1.
	if _, err := baselines.DropoutQuantiles.Restore(s); err == nil {
		t.Error("restores with all units dropped")
	}
	for _, levels := range [][]float64{{0.9, 0.1}, {0, 0.5}, {0.5, 1}, {0.5}, {0.1, 0.5, 0.9}, {math.NaN(), 0.5}} {
		s := model.(rows.Stater).State()
		s.Arrays = maps.Clone(s.Arrays)
		s.Arrays["levels"] = rows.Vector(levels)
		if _, err := baselines.QualityDriven.Restore(s); err == nil {
			t.Errorf("restores with the ends %v", levels)
		}
	}
}
