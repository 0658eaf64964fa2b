package compare_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
)

// norm is the fit of a detector whose score is the squared norm of the features times the
// parameter "factor". A factor of 0 cannot be fitted, and a factor of 100 gives scores of NaN.
type norm struct {
	Factor float64 `state:"factor"`
}

func (s *norm) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	for i := range dst {
		x := b.Features.Data[i*b.Features.Stride : i*b.Features.Stride+b.Features.Cols]
		dst[i] = s.Factor * float64(blas32.Dot(
			blas32.Vector{N: len(x), Inc: 1, Data: x}, blas32.Vector{N: len(x), Inc: 1, Data: x}))
	}
	return ctx.Err()
}

func fitNorm(_ context.Context, t ood.Training, p ood.Params) (any, error) {
	t.Progress(.5)
	s := &norm{p.Float("factor")}
	if s.Factor == 0 {
		return nil, errors.New("factor is 0")
	}
	if s.Factor == 100 {
		s.Factor = math.NaN()
	}
	return s, nil
}

var normMethod = ood.Method{
	Name: "norm", Doc: "Norm.", Needs: ood.Needs{Features: true},
	Params: []ood.Param{{Name: "factor", Default: 1, Sweep: []any{1, -1, 0, 100}}},
	Fit:    fitNorm,
	New:    func() any { return &norm{} },
}

func column(x ...float32) ood.Batch {
	return ood.Batch{Features: blas32.General{Rows: len(x), Cols: 1, Stride: 1, Data: x}}
}

func comparison(methods ...ood.Method) compare.Options {
	return compare.Options{
		Methods:  methods,
		Training: ood.Training{Batch: column(1, 2, 3), Seed: 9},
		Test:     column(1, 2, 3, 4), OOD: column(3.5, 5),
	}
}

func TestCompareJSON(t *testing.T) {
	control, trained, broken := normMethod, normMethod, normMethod
	control.Name, control.Control, control.Params = "control", true, nil
	control.Fit = func(context.Context, ood.Training, ood.Params) (any, error) { return &norm{1}, nil }
	trained.Name, trained.Needs = "trained", ood.Needs{Features: true, Trainer: true}
	broken.Name, broken.Sweep = "broken", []ood.Params{{"factor": 0.}}
	c := comparison(normMethod, control, trained, broken)
	c.Sweep = true
	r, err := compare.Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	r.Model = "model.onnx"
	for i := range r.Methods {
		if r.Methods[i].FitSeconds < 0 || r.Methods[i].ScoreMicroseconds < 0 {
			t.Errorf("times %+v", r.Methods[i])
		}
		r.Methods[i].FitSeconds, r.Methods[i].ScoreMicroseconds = 0.5, 2
	}
	got, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/report.json")
	if err != nil {
		t.Fatal(err)
	}
	if string(got)+"\n" != string(want) {
		t.Errorf("got\n%s", got)
	}
	if s := r.Methods[0].Configs[0]; !slices.Equal(s.TestScores, []float64{1, 4, 9, 16}) || !slices.Equal(s.OODScores[0], []float64{12.25, 25}) {
		t.Errorf("scores %v %v", s.TestScores, s.OODScores)
	}
	var names []string
	for _, m := range r.Ranked() {
		names = append(names, m.Name)
	}
	if !slices.Equal(names, []string{"control", "norm", "broken"}) {
		t.Errorf("ranked %v", names)
	}
}

func TestCompareDefault(t *testing.T) {
	r, err := compare.Run(context.Background(), comparison(normMethod))
	if err != nil {
		t.Fatal(err)
	}
	m := r.Methods[0]
	if len(m.Configs) != 1 || len(m.Failed) != 0 || m.AUROC != (compare.Summary{Mean: .875, Max: .875, N: 1}) {
		t.Errorf("%+v", m)
	}
}

func TestCompareFitsGridAtOnce(t *testing.T) {
	together := normMethod
	together.Sweep = fitting.Grid(together)[:2]
	calls := 0
	together.Fit = func(ctx context.Context, t ood.Training, _ ood.Params) (any, error) {
		return memo.OncePerKey(ctx, t, func(ood.Params) bool { return true }, func(same []ood.Params, _ func(float64)) ([]any, error) {
			calls++
			var all []any
			for _, v := range same {
				s, err := fitNorm(ctx, t, v)
				if err != nil {
					return nil, err
				}
				all = append(all, s)
			}
			return all, nil
		})
	}
	c := comparison(together)
	c.Sweep = true
	r, err := compare.Run(context.Background(), c)
	if err != nil || calls != 1 || len(r.Methods[0].Configs) != 2 {
		t.Errorf("%d calls, %v, %+v", calls, err, r)
	}
	// If a configuration fails, the grid fails as a whole. Configurations are then fitted one
	// by one, and only those that fail are lost.
	failing := together
	failing.Sweep = nil
	c.Methods, calls = []ood.Method{failing}, 0
	r, err = compare.Run(context.Background(), c)
	if err != nil || calls != 5 || len(r.Methods[0].Configs) != 2 || len(r.Methods[0].Failed) != 2 {
		t.Errorf("%v, %+v", err, r)
	}
}

// TestCompareFailsOnce checks that a method is tried only once, and not with every
// configuration, if the model cannot be differentiated.
func TestCompareFailsOnce(t *testing.T) {
	calls := 0
	m := normMethod
	m.Fit = func(context.Context, ood.Training, ood.Params) (any, error) {
		calls++
		return nil, fmt.Errorf("node 7: %w", ood.ErrNotDifferentiable)
	}
	c := comparison(m)
	c.Sweep = true
	r, err := compare.Run(context.Background(), c)
	if err != nil || calls != 1 || len(r.Skipped) != 1 {
		t.Errorf("%d calls, %v, %+v", calls, err, r)
	}
}

func TestCompareProgress(t *testing.T) {
	a, b := normMethod, normMethod
	b.Name = "other"
	c := comparison(a, b)
	c.Sweep = true
	c.Parallel = 2
	latest := map[string]float64{}
	c.Progress = func(method string, fraction float64) {
		if fraction < latest[method] || fraction > 1 {
			t.Errorf("%s: %v after %v", method, fraction, latest[method])
		}
		latest[method] = fraction
	}
	if _, err := compare.Run(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	if latest["norm"] != 1 || latest["other"] != 1 {
		t.Errorf("ends at %v", latest)
	}
}

func TestCompareErrors(t *testing.T) {
	for want, change := range map[string]func(*compare.Options){
		"out-of-distribution rows: there are none":                        func(c *compare.Options) { c.OOD = ood.Batch{} },
		"in-distribution rows: there are none":                            func(c *compare.Options) { c.Test = c.Test.Slice(2, 2) },
		"in-distribution rows have 2 features, but the fit rows have 1":   func(c *compare.Options) { c.Test.Features = rows.New(4, 2) },
		"fit rows: 3 rows but 2 labels":                                   func(c *compare.Options) { c.Training.Labels = []int{0, 1} },
		"out-of-distribution rows have 3 logits, but the fit rows have 2": func(c *compare.Options) { c.Training.Logits, c.OOD.Logits = rows.New(3, 2), rows.New(2, 3) },
	} {
		c := comparison(normMethod)
		change(&c)
		if _, err := compare.Run(context.Background(), c); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := compare.Run(ctx, comparison(normMethod)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func ExampleRun() {
	report, err := compare.Run(context.Background(), compare.Options{
		Methods:  []ood.Method{normMethod},
		Training: ood.Training{Batch: column(1, 2, 3)},
		Test:     column(1, 2, 3, 4),
		OOD:      column(3.5, 5),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range report.Ranked() {
		fmt.Printf("%s: AUROC %.3f ± %.3f\n", m.Name, m.AUROC.Mean, m.AUROC.Std)
	}
	// Output: norm: AUROC 0.875 ± 0.000
}

type panicking struct{}

func (*panicking) Score(context.Context, []float64, ood.Batch) error { panic("my bug") }

// TestRunPanics checks that Run panics if a custom method panics.
func TestRunPanics(t *testing.T) {
	m := ood.Method{Name: "mine", Needs: ood.Needs{Features: true}, Fit: func(context.Context, ood.Training, ood.Params) (any, error) { return &panicking{}, nil }}
	b := ood.Batch{Features: blas32.General{Rows: 4, Cols: 1, Stride: 1, Data: make([]float32, 4)}}
	defer func() {
		if r, ok := recover().(string); !ok || !strings.HasPrefix(r, "method \"mine\": my bug\n") || !strings.Contains(r, "panicking") {
			t.Errorf("recovered %v", r)
		}
	}()
	_, err := compare.Run(t.Context(), compare.Options{Methods: []ood.Method{m, m}, Training: ood.Training{Batch: b}, Test: b, OOD: b, Parallel: 2})
	t.Errorf("no panic, but %v", err)
}
