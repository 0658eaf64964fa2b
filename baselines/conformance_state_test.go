package baselines_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/ood"
)

func (c conformance) grid(t *testing.T, m ood.Method) {
	all := configurations(m)
	scorers, err := ood.FitGrid(background, m, c.training, all)
	if err != nil {
		t.Fatal(err)
	}
	if len(scorers) != len(all) {
		t.Fatalf("%d scorers of %d configurations", len(scorers), len(all))
	}
	var want [][]float64
	for i, p := range all {
		want = append(want, score(t, c.fit(t, m, p), c.out))
		if got := score(t, scorers[i], c.out); !near(got, want[i], 1e-6) {
			t.Errorf("%v: fitted together it scores otherwise than alone", p)
		}
	}
	got, err := ood.ScoreGrid(background, scorers, c.out, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range all {
		if !near(got[i], want[i], 1e-6) {
			t.Errorf("%v: scored together it scores otherwise than alone", p)
		}
	}
}

func (c conformance) state(t *testing.T, m ood.Method) {
	for _, p := range configurations(m) {
		s := c.fit(t, m, p)
		back, err := ood.Restore(m, throughJSON(t, s.State()))
		if err != nil {
			t.Fatalf("%v: %v", p, err)
		}
		if back.RunsNetwork() {
			var absent *ood.NeedError
			if _, err := back.Score(background, nil, c.out); !errors.As(err, &absent) || absent.Need&m.Needs == 0 {
				t.Errorf("%v: restored, and not bound to a network: %v", p, err)
			}
			back = back.Bind(c.training.Network)
		}
		if !slices.Equal(score(t, s, c.out), score(t, back, c.out)) {
			t.Errorf("%v: restored, it scores otherwise", p)
		}
		if got, want := fmt.Sprint(back.State()), fmt.Sprint(s.State()); got != want {
			t.Errorf("%v: the state of the restored differs", p)
		}
	}
}

// throughJSON takes the scalars of a state to JSON and back and copies arrays.
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
		n := 1
		for _, d := range a.Shape {
			n *= d
		}
		switch data := a.Data.(type) {
		case []float32:
			a.Data = slices.Clone(data)
			n -= len(data)
		case []float64:
			a.Data = slices.Clone(data)
			n -= len(data)
		case []int64:
			a.Data = slices.Clone(data)
			n -= len(data)
		default:
			t.Fatalf("array %q is %T", name, a.Data)
		}
		if n != 0 {
			t.Fatalf("array %q does not have shape %v", name, a.Shape)
		}
		back.Arrays[name] = a
	}
	return back
}

func (c conformance) damagedState(t *testing.T, m ood.Method) {
	if _, err := ood.Restore(m, rows.State{}); err == nil {
		t.Error("restores from nothing")
	}
	whole := c.fit(t, m, m.Default()).State()
	for name := range whole.Params {
		for _, v := range []any{nil, []string{"x"}} {
			s := throughJSON(t, whole)
			s.Params[name] = v
			if _, err := ood.Restore(m, s); err == nil {
				t.Errorf("restores with parameter %q = %v", name, v)
			}
		}
	}
	// Widths are not taken at their word: memory is for rows that can be.
	for name := range whole.Params {
		if _, of, ok := strings.Cut(name, "width of "); ok {
			s := throughJSON(t, whole)
			s.Params[name] = float64(math.MaxInt32)
			if _, err := ood.Restore(m, s); err == nil || !strings.Contains(err.Error(), `"width of `+of+`" must be`) {
				t.Errorf("%s = 2³¹−1: %v", name, err)
			}
		}
	}
	// What is restored for other rows has to be able to score them.
	if width, ok := whole.Params["width of features"].(float64); ok {
		for _, other := range []float64{1, width - 1, width + 1} {
			s := throughJSON(t, whole)
			s.Params["width of features"] = other
			if back, err := ood.Restore(m, s); err == nil {
				b := c.out
				b.Features = zeros(b.Len(), int(other))
				copy(b.Features.Data, c.out.Features.Data)
				score(t, back, b)
			}
		}
	}
	for name, a := range whole.Arrays {
		for _, broken := range []rows.Array{
			{},
			{Shape: []int{len(a.Shape)}, Data: []int64{1}},
			{Shape: append(slices.Clone(a.Shape), 2), Data: a.Data},
			{Shape: slices.Repeat([]int{0}, len(a.Shape)), Data: a.Data},
			{Shape: slices.Repeat([]int{-1}, len(a.Shape)), Data: a.Data},
			{Shape: slices.Repeat([]int{1 << 40}, len(a.Shape)), Data: a.Data},
		} {
			s := throughJSON(t, whole)
			s.Arrays[name] = broken
			if _, err := ood.Restore(m, s); err == nil {
				t.Errorf("restores with array %q of shape %v, %T", name, broken.Shape, broken.Data)
			}
		}
		for axis := range a.Shape {
			for _, n := range []int{1, a.Shape[axis] - 1, a.Shape[axis] + 1} {
				s := throughJSON(t, whole)
				s.Arrays[name] = resized(a, axis, n)
				if back, err := ood.Restore(m, s); err == nil {
					_, _ = back.Bind(c.training.Network).Score(background, nil, c.out) // which may fail, without a panic
				}
			}
		}
		s := throughJSON(t, whole)
		delete(s.Arrays, name)
		if _, err := ood.Restore(m, s); err == nil {
			t.Errorf("restores without array %q", name)
		}
	}
}

// resized is a with n along an axis, its elements repeated as often as it takes.
func resized(a rows.Array, axis, n int) rows.Array {
	a.Shape = slices.Clone(a.Shape)
	a.Shape[axis] = n
	size := shapeSize(a.Shape)
	switch data := a.Data.(type) {
	case []float32:
		a.Data = slices.Repeat(data, size/len(data)+1)[:size]
	case []float64:
		a.Data = slices.Repeat(data, size/len(data)+1)[:size]
	case []int64:
		a.Data = slices.Repeat(data, size/len(data)+1)[:size]
	}
	return a
}
