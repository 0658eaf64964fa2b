package baselines_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/internal/train"
	"github.com/attach-uncertainty/attach/ood"
)

// randomTrainer returns networks of the shape asked for with weights as they
// are drawn: what is stored of a network does not depend on what it learnt.
type randomTrainer struct{}

func (randomTrainer) Train(ctx context.Context, p train.Problem) ([]train.Network, error) {
	networks := make([]train.Network, len(p.Models))
	for m := range networks {
		rng := rand.New(rand.NewPCG(p.Models[m].Seed, 1))
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
	if p.Progress != nil {
		p.Progress(1, 1)
	}
	return networks, ctx.Err()
}

var intervalMethods = slices.DeleteFunc(attach.Methods(), func(m ood.Method) bool { return !m.Intervals() })

// small are parameters of fits that take no time.
func small(m ood.Method) ood.Params {
	p := ood.Params{}
	for name, v := range map[string]float64{"hidden": 5, "layers": 2, "n_estimators": 7, "max_depth": 3} {
		if _, ok := m.Default()[name]; ok {
			p[name] = v
		}
	}
	return p
}

func fitSmall(t testing.TB, m ood.Method) (*ood.Scorer, blas32.General) {
	t.Helper()
	x, y := steps(60, 1)
	r := regression(x, y, .1, .9)
	r.Seed = 1<<40 + 7
	s, err := ood.Fit(background, m, r, small(m))
	if err != nil {
		t.Fatal(err)
	}
	return s, x
}

// TestIntervalConformance holds every interval method to the contract of
// ood.Method.
func TestIntervalConformance(t *testing.T) {
	for _, m := range intervalMethods {
		t.Run(m.Name, func(t *testing.T) {
			var c conformance
			t.Run("description", func(t *testing.T) { c.description(t, m) })
			t.Run("quantiles", func(t *testing.T) { intervalQuantiles(t, m) })
			t.Run("grid", func(t *testing.T) { intervalGrid(t, m) })
			t.Run("refuses", func(t *testing.T) { intervalRefuses(t, m) })
			t.Run("state", func(t *testing.T) { intervalState(t, m) })
			t.Run("damaged state", func(t *testing.T) { intervalDamaged(t, m) })
		})
	}
}

func intervalQuantiles(t *testing.T, m ood.Method) {
	x, y := steps(300, 3)
	test, _ := steps(50, 4)
	var last float64
	r := regression(x, y, .9, .1)
	r.Seed, r.Progress = 3, func(share float64) {
		if share < last || share > 1 {
			t.Errorf("progress %v after %v", share, last)
		}
		last = share
	}
	fit := func() *ood.Scorer {
		s, err := ood.Fit(background, m, r, small(m))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	model := fit()
	if last != 1 {
		t.Errorf("progress ends at %v", last)
	}
	r.Progress = nil
	levels := []float64{0.001, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999}
	q := model.Quantiles(test, levels)
	if q.Rows != 50 || q.Targets != 2 {
		t.Fatalf("quantiles of %d rows and %d targets", q.Rows, q.Targets)
	}
	for i := range q.Rows {
		for target := range q.Targets {
			if !slices.IsSorted(q.Row(i, target)) {
				t.Fatalf("the quantiles of row %d cross: %v", i, q.Row(i, target))
			}
		}
	}
	one := model.Quantiles(slice(test, 7, 8), []float64{0.7})
	if !near([]float64{one.At(0, 1, 0)}, []float64{q.At(7, 1, 5)}, 1e-5) {
		t.Error("a quantile depends on the rows or levels beside it")
	}
	spoilt := slice(test, 0, 2)
	spoilt.Data = slices.Clone(spoilt.Data)
	spoilt.Data[1] = float32(math.NaN())
	if s := model.Quantiles(spoilt, levels); !math.IsNaN(s.At(0, 1, 3)) || !near([]float64{s.At(1, 1, 3)}, []float64{q.At(1, 1, 3)}, 1e-5) {
		t.Error("NaN does not stay in its row")
	}
	if empty := model.Quantiles(blas32.General{Cols: 3, Stride: 4}, levels); empty.Rows != 0 || len(empty.Data) != 0 {
		t.Error("no rows have quantiles")
	}
	if !alike(fit().Quantiles(test, levels), q) {
		t.Error("a second fit with the same seed predicts otherwise")
	}
	defer func() {
		if recover() == nil {
			t.Error("rows of the wrong width are taken")
		}
	}()
	model.Quantiles(y, levels)
}

// alike allows for products of matrices, which round by where their memory lies.
func alike(a, b ood.Quantiles) bool {
	return slices.EqualFunc(a.Data, b.Data, func(x, y float32) bool { return math.Abs(float64(x-y)) <= 1e-5*max(1, math.Abs(float64(x))) })
}

// intervalGrid holds that fits of a grid are those of its settings one by one.
func intervalGrid(t *testing.T, m ood.Method) {
	x, y := steps(200, 5)
	test, _ := steps(30, 6)
	r := regression(x, y, .1, .9)
	all := m.Grid()
	var grid []ood.Params
	for g := 0; g < len(all); g += max(len(all)/6, 1) {
		p := maps.Clone(all[g])
		if n, ok := p["n_estimators"].(float64); ok {
			p["n_estimators"], p["max_features"] = n/50, .5
		}
		grid = append(grid, p, small(m))
	}
	together, err := ood.FitGrid(background, m, r, grid)
	if err != nil {
		t.Fatal(err)
	}
	for g, params := range grid {
		alone, err := ood.Fit(background, m, r, params)
		if err != nil {
			t.Fatal(err)
		}
		if !alike(alone.Quantiles(test, r.Levels), together[g].Quantiles(test, r.Levels)) {
			t.Errorf("%v: in a grid it predicts otherwise", params)
		}
	}
}

func intervalRefuses(t *testing.T, m ood.Method) {
	x, y := steps(20, 8)
	var notFinite *rows.NotFiniteError
	var tooFew *rows.TooFewRowsError
	var absent *ood.NeedError
	fit := func(ctx context.Context, change func(r *ood.Training), p ood.Params) error {
		r := regression(x, y, .1, .9)
		change(&r)
		_, err := ood.Fit(ctx, m, r, p)
		return err
	}
	spoil := func(m *blas32.General) {
		m.Data = slices.Clone(m.Data)
		m.Data[m.Stride+1] = float32(math.Inf(1))
	}
	if err := fit(background, func(r *ood.Training) { spoil(&r.Features) }, nil); !errors.As(err, &notFinite) || notFinite.Row != 1 {
		t.Errorf("infinite input: %v", err)
	}
	if err := fit(background, func(r *ood.Training) { spoil(&r.Targets) }, nil); !errors.As(err, &notFinite) || notFinite.Row != 1 {
		t.Errorf("infinite target: %v", err)
	}
	if err := fit(background, func(r *ood.Training) { r.Features.Rows, r.Targets.Rows = 0, 0 }, nil); !errors.As(err, &tooFew) {
		t.Errorf("no rows: %v", err)
	}
	if err := fit(background, func(r *ood.Training) { r.Targets = blas32.General{} }, nil); !errors.As(err, &absent) || absent.Need != ood.NeedTargets {
		t.Errorf("no targets: %v", err)
	}
	if err := fit(background, func(r *ood.Training) { r.Trainer = nil }, nil); (m.Needs&ood.NeedTrainer != 0) != errors.As(err, &absent) {
		t.Errorf("no trainer: %v", err)
	}
	if err := fit(background, func(r *ood.Training) { r.Targets.Rows-- }, nil); err == nil {
		t.Error("fewer targets than inputs are taken")
	}
	for _, levels := range [][]float64{{0, .5}, {.1, 1}, {.1, .1}} {
		if err := fit(background, func(r *ood.Training) { r.Levels = levels }, nil); err == nil {
			t.Errorf("levels %v are taken", levels)
		}
	}
	if err := fit(background, func(r *ood.Training) { r.Levels = []float64{.1, .5, .9} }, nil); (m.Needs&ood.NeedEnds != 0) != (err != nil) {
		t.Errorf("three levels: %v", err)
	}
	cancelled, cancel := context.WithCancel(background)
	cancel()
	if err := fit(cancelled, func(*ood.Training) {}, small(m)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	for name := range m.Default() {
		for _, v := range []any{"fast", -2., math.NaN(), math.Inf(1), nil} {
			if err := fit(background, func(*ood.Training) {}, ood.Params{name: v}); err == nil {
				t.Errorf("%s = %v is taken", name, v)
			}
		}
	}
}

// intervalState: a method comes back from its state, by way of JSON for what is
// not an array, and predicts what it did.
func intervalState(t *testing.T, m ood.Method) {
	model, x := fitSmall(t, m)
	state := model.State()
	back, err := ood.Restore(m, throughJSON(t, state))
	if err != nil {
		t.Fatal(err)
	}
	levels := []float64{0.05, 0.1, 0.4, 0.9}
	if !alike(back.Quantiles(x, levels), model.Quantiles(x, levels)) {
		t.Error("restored, it predicts otherwise")
	}
	if fmt.Sprint(back.State()) != fmt.Sprint(state) {
		t.Error("the state of the restored differs")
	}
}

// intervalDamaged: a state with a part missing, of another type or shape, is
// refused. One whose numbers were changed is refused, or predicts something;
// nothing panics.
func intervalDamaged(t *testing.T, m ood.Method) {
	model, x := fitSmall(t, m)
	x.Rows = 2
	whole := model.State()
	refused := func(what string, s rows.State) {
		t.Helper()
		if r, err := ood.Restore(m, s); err == nil || r != nil {
			t.Errorf("restores with %s: %v, %v", what, r, err)
		}
	}
	refused("nothing", rows.State{})
	for name := range whole.Params {
		for _, v := range []any{nil, []string{"x"}, math.NaN()} {
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
				if r, err := ood.Restore(m, s); err == nil {
					r.Quantiles(x, []float64{0.1, 0.5})
				}
			}
		}
	}
}

func shapeSize(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
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

// FuzzRestoreIntervals: a state that was tampered with is refused, or predicts
// something: it does not panic or go round in circles.
func FuzzRestoreIntervals(f *testing.F) {
	var states []rows.State
	for _, m := range intervalMethods {
		model, _ := fitSmall(f, m)
		states = append(states, model.State())
	}
	rng := rand.New(rand.NewPCG(6, 6))
	for i := range 300 {
		f.Add(uint(i), rng.IntN(40)-4, []int64{-2, -1, 0, 1, 2, 5, 7, 100, math.MaxInt64}[i%9])
	}
	x, _ := steps(20, 2)
	f.Fuzz(func(t *testing.T, which uint, at int, value int64) {
		for i, m := range intervalMethods {
			if model, err := ood.Restore(m, tamper(states[i], which, at, value)); err == nil && model.State().Params["width of features"] == 3. {
				model.Quantiles(x, []float64{0.1, 0.5})
			}
		}
	})
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
	n := shapeSize(a.Shape)
	i := max(at, 0) % max(n, 1)
	switch v := a.Data.(type) {
	case []int64:
		v = slices.Clone(v)
		v[i] = value
		a.Data = v
	case []float32:
		v = slices.Clone(v)
		v[i] = float32(value)
		a.Data = v
	case []float64:
		v = slices.Clone(v)
		v[i] = float64(value)
		a.Data = v
	}
	if at < 0 {
		a.Shape = append([]int{a.Shape[0] - 1}, a.Shape[1:]...)
	}
	s.Arrays[names[k]] = a
	return s
}
