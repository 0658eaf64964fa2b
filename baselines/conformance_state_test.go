package baselines_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

// state checks that a method can be restored from its state. As in a file, the scalars of
// the state are written as JSON and read again.
func (c conformance) state(t *testing.T) {
	for k, s := range c.scorers {
		out := c.out
		back, err := fitting.Restore(c.Method, throughJSON(t, s.State()))
		if err != nil {
			t.Fatalf("%v: %v", c.configs[k], err)
		}
		if c.Needs.Network || c.Needs.Dropout {
			var absent *ood.NeedError
			if _, err := back.Score(background, nil, c.out); !errors.As(err, &absent) || c.intersect(absent.Need) != absent.Need {
				t.Errorf("%v: restored and not bound to a network: %v", c.configs[k], err)
			}
			out.Network = c.training.Network
		}
		if want := c.predict(t, s, c.out); !slices.Equal(want, c.predict(t, back, out)) && !(c.Needs.Targets && c.nearlyEqual(want, c.predict(t, back, out))) {
			t.Errorf("%v: the restored method scores differently", c.configs[k])
		}
		if got, want := fmt.Sprint(back.State()), fmt.Sprint(s.State()); got != want {
			t.Errorf("%v: the restored method has a different state", c.configs[k])
		}
	}
}

// throughJSON returns a copy of a state after its scalars were encoded as JSON and decoded
// again.
func throughJSON(t *testing.T, s rows.State) rows.State {
	t.Helper()
	b, err := json.Marshal(s.Params)
	if err != nil {
		t.Fatal(err)
	}
	back := rows.State{Arrays: map[string]rows.Array{}}
	if err := json.Unmarshal(b, &back.Params); err != nil {
		t.Fatal(err)
	}
	for name, a := range s.Arrays {
		back.Arrays[name] = resized(a, 0, a.Shape[0])
		if n := lengthOf(a); n != size(a.Shape) {
			t.Fatalf("array %q of %d numbers does not have shape %v", name, n, a.Shape)
		}
	}
	return back
}

// damagedState checks that Restore rejects a state if a part is missing, or has the wrong
// type or an impossible shape. If numbers or lengths in a state are changed, Restore must
// reject the state, or the scorer must not panic.
func (c conformance) damagedState(t *testing.T) {
	whole := c.scorers[0].State()
	restore := func(change func(s rows.State)) (*fitting.Scorer, error) {
		s := throughJSON(t, whole)
		change(s)
		return fitting.Restore(c.Method, s)
	}
	few := c.out.Slice(0, 2)
	few.Network = c.training.Network
	tolerated := func(change func(s rows.State)) {
		if back, err := restore(change); err == nil && c.Needs.Targets {
			back.Quantiles(few.Features, levels)
		} else if err == nil {
			_, _ = back.Score(background, nil, few)
		}
	}
	refused := func(what string, change func(s rows.State)) {
		t.Helper()
		if s, err := restore(change); err == nil || s != nil {
			t.Errorf("restores with %s", what)
		}
	}
	if _, err := fitting.Restore(c.Method, rows.State{}); err == nil {
		t.Error("an empty state is accepted")
	}
	for name := range whole.Params {
		for _, v := range []any{nil, []string{"x"}, math.NaN()} {
			refused(fmt.Sprintf("parameter %q = %v", name, v), func(s rows.State) { s.Params[name] = v })
		}
		if _, part, ok := strings.Cut(name, "width of "); ok {
			// Restore must reject huge widths, so that it does not allocate memory for rows
			// that cannot exist.
			if _, err := restore(func(s rows.State) { s.Params[name] = float64(math.MaxInt32) }); err == nil || !strings.Contains(err.Error(), `"width of `+part+`" must be`) {
				t.Errorf("%s = 2³¹−1: %v", name, err)
			}
		}
	}
	// If Restore accepts a different number of features, the method must score rows with that
	// number.
	if width, ok := whole.Params["width of features"].(float64); ok {
		for _, other := range []float64{1, width - 1, width + 1} {
			if back, err := restore(func(s rows.State) { s.Params["width of features"] = other }); err == nil {
				b := c.out
				b.Features = zeros(b.Len(), int(other))
				copy(b.Features.Data, c.out.Features.Data)
				c.predict(t, back, b)
			}
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
			refused(fmt.Sprintf("array %q of shape %v, %T", name, broken.Shape, broken.Data), func(s rows.State) { s.Arrays[name] = broken })
		}
		refused("no array "+name, func(s rows.State) { delete(s.Arrays, name) })
		for axis := range a.Shape {
			for _, n := range []int{1, a.Shape[axis] - 1, a.Shape[axis] + 1} {
				tolerated(func(s rows.State) { s.Arrays[name] = resized(a, axis, n) })
			}
		}
		for at := range min(size(a.Shape), 3) {
			for _, v := range []float64{math.NaN(), math.Inf(1), -1, 0, 7, 1e9} {
				tolerated(func(s rows.State) { setEntry(s.Arrays[name], at, v) })
			}
		}
	}
}

func size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func lengthOf(a rows.Array) int {
	switch data := a.Data.(type) {
	case []float32:
		return len(data)
	case []float64:
		return len(data)
	case []int64:
		return len(data)
	}
	return -1
}

// resized returns a copy of a with n elements along an axis. It repeats elements as needed.
func resized(a rows.Array, axis, n int) rows.Array {
	a.Shape = slices.Clone(a.Shape)
	a.Shape[axis] = n
	n = size(a.Shape)
	switch data := a.Data.(type) {
	case []float32:
		a.Data = repeated(data, n)
	case []float64:
		a.Data = repeated(data, n)
	case []int64:
		a.Data = repeated(data, n)
	}
	return a
}

func repeated[T any](data []T, n int) []T {
	return slices.Repeat(data, n/max(len(data), 1)+1)[:n]
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

// FuzzRestoreIntervals checks that Restore either rejects a state with a changed value, or
// returns a model that predicts. Neither Restore nor the model may panic or loop forever.
func FuzzRestoreIntervals(f *testing.F) {
	x, y := stepRows(60, 1)
	var states []rows.State
	var methods []ood.Method
	for _, m := range attach.Methods() {
		if !m.Needs.Targets {
			continue
		}
		s, err := fitting.Fit(background, m, regression(x, y, .1, .9), configurations(m)[0])
		if err != nil {
			f.Fatal(err)
		}
		states, methods = append(states, s.State()), append(methods, m)
	}
	rng := rand.New(rand.NewPCG(6, 6))
	for i := range 150 {
		f.Add(uint(i), rng.IntN(40)-4, []int64{-2, -1, 0, 1, 2, 5, 7, 100, math.MaxInt64}[i%9])
	}
	x.Rows = 20
	f.Fuzz(func(t *testing.T, which uint, at int, value int64) {
		for i, m := range methods {
			if model, err := fitting.Restore(m, tamper(states[i], which, at, value)); err == nil && model.State().Params["width of features"] == 3. {
				model.Quantiles(x, []float64{0.1, 0.5})
			}
		}
	})
}

// tamper returns a copy of a state with one changed parameter, array element or array
// length.
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
	a = resized(a, 0, a.Shape[0])
	setEntry(a, max(at, 0)%max(size(a.Shape), 1), float64(value))
	if at < 0 {
		a.Shape[0]--
	}
	s.Arrays[names[k]] = a
	return s
}
