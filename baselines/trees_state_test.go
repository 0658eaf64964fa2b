package baselines_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/rows"
)

var treeStates = []struct {
	method  heads.QuantileMethod
	restore func(rows.State) (heads.QuantileRegressor, error)
}{
	{baselines.Boosting, baselines.RestoreBoosting},
	{baselines.QuantileForest, baselines.RestoreQuantileForest},
}

func fitSmallTrees(t testing.TB, m heads.QuantileMethod) (heads.QuantileRegressor, blas32.General) {
	x, y := steps(150, 1)
	model, err := m.Fit(background, heads.Regression{X: x, Y: y, Levels: []float64{0.1, 0.9}},
		map[string]any{"n_estimators": 3., "max_depth": 3.})
	if err != nil {
		t.Fatal(err)
	}
	return model, x
}

func TestTreesComeBackFromTheirState(t *testing.T) {
	for _, c := range treeStates {
		model, x := fitSmallTrees(t, c.method)
		state := model.(rows.Stater).State()
		back, err := c.restore(state)
		if err != nil {
			t.Fatalf("%s: %v", c.method.Name, err)
		}
		levels := []float64{0.1, 0.4, 0.9}
		if !slices.Equal(back.Quantiles(x, levels).Data, model.Quantiles(x, levels).Data) {
			t.Errorf("%s: restored, it predicts otherwise", c.method.Name)
		}
		if fmt.Sprint(back.(rows.Stater).State()) != fmt.Sprint(state) {
			t.Errorf("%s: the state of the restored differs", c.method.Name)
		}
	}
}

// tamper changes one entry, or the length, of one array or parameter.
func tamper(s rows.State, which uint, at int, value int64) rows.State {
	s.Params, s.Arrays = maps.Clone(s.Params), maps.Clone(s.Arrays)
	names := slices.Sorted(maps.Keys(s.Arrays))
	params := slices.Sorted(maps.Keys(s.Params))
	k := int(which % uint(len(names)+len(params)))
	if k >= len(names) {
		s.Params[params[k-len(names)]] = float64(value)
		return s
	}
	a := s.Arrays[names[k]]
	n := a.Shape[0]
	if at < 0 {
		n--
	}
	i := max(at, 0) % max(n, 1)
	switch v := a.Data.(type) {
	case []int64:
		v = slices.Clone(v)
		v[i] = value
		a.Data = v[:n]
	case []float32:
		v = slices.Clone(v)
		v[i] = float32(value)
		a.Data = v[:n]
	case []float64:
		v = slices.Clone(v)
		v[i] = float64(value)
		a.Data = v[:n]
	}
	a.Shape = []int{n}
	s.Arrays[names[k]] = a
	return s
}

// A state that was tampered with is refused, or predicts something: it does
// not panic or go round in circles.
func FuzzRestoreTrees(f *testing.F) {
	var states []rows.State
	for _, c := range treeStates {
		model, _ := fitSmallTrees(f, c.method)
		states = append(states, model.(rows.Stater).State())
	}
	rng := rand.New(rand.NewPCG(6, 6))
	for i := range 300 {
		f.Add(uint(i), rng.IntN(40)-4, []int64{-2, -1, 0, 1, 2, 5, 7, 100, math.MaxInt64}[i%9])
	}
	x, _ := steps(20, 2)
	f.Fuzz(func(t *testing.T, which uint, at int, value int64) {
		for i, c := range treeStates {
			model, err := c.restore(tamper(states[i], which, at, value))
			if err != nil {
				continue
			}
			if s := model.(rows.Stater).State(); s.Params["columns"] == 3. {
				model.Quantiles(x, []float64{0.1, 0.5})
			}
		}
	})
}

func TestTamperedTreesAreRefused(t *testing.T) {
	for _, c := range treeStates {
		model, _ := fitSmallTrees(t, c.method)
		state := model.(rows.Stater).State()
		refused := 0
		names := slices.Sorted(maps.Keys(state.Arrays))
		for _, name := range names {
			gone := state
			gone.Arrays = maps.Clone(state.Arrays)
			delete(gone.Arrays, name)
			if _, err := c.restore(gone); err == nil {
				t.Errorf("%s is restored without %q", c.method.Name, name)
			}
		}
		for k := range names {
			if _, err := c.restore(tamper(state, uint(k), -1, 0)); err != nil {
				refused++
			}
		}
		if refused != len(names) {
			t.Errorf("%s: of %d arrays, %d are refused when they are cut short", c.method.Name, len(names), refused)
		}
	}
}
