package attach_test

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/ood"
)

// keeping is the fit of a custom detector, with a state of any type.
type keeping[T any] struct {
	X T `state:"x"`
}

func (*keeping[T]) Score(_ context.Context, dst []float64, _ ood.Batch) error {
	for i := range dst {
		dst[i] = float64(i)
	}
	return nil
}

// keepingRow has a state as long as the features.
type keepingRow[T any] struct {
	keeping[bool]
	Row []T `state:"row[features]"`
}

// own returns a method whose Fit and New return the value of made.
func own(fitted *bool, made func() any) ood.Method {
	return ood.Method{Name: "box", Needs: ood.Needs{Features: true}, New: made, Fit: func(context.Context, ood.Training, ood.Params) (any, error) {
		*fitted = true
		return made(), nil
	}}
}

// The fit rejects a state that a file could not restore, and, before the work, a state of a
// type that cannot be saved.
func TestOwnStates(t *testing.T) {
	of := func(x any) func() any { return func() any { return x } }
	for name, tt := range map[string]struct {
		made   func() any
		want   string
		before bool
	}{
		"map":          {of(&keeping[map[string]int]{}), "the field X of attach_test.keeping[map[string]int] is of type map[string]int, which no file keeps", true},
		"matrix":       {of(&keeping[[][]float64]{}), "is of type [][]float64, which no file keeps", true},
		"inside":       {of(&keeping[[]keeping[int8]]{}), "the field X of attach_test.keeping[int8] is of type int8", true},
		"pointer":      {of(&keeping[*int]{}), "is of type *int", true},
		"nil":          {of(&keeping[*keeping[int]]{}), "", false},
		"nothing":      {of(&keeping[any]{}), "cannot save its fitted state: rows: a interface {} cannot be saved as \"x\"", false},
		"NaN":          {of(&keeping[float64]{math.NaN()}), `detector box: method "box": cannot save its fitted state: parameter "x" is NaN`, false},
		"infinity":     {of(&keeping[float32]{float32(math.Inf(1))}), `parameter "x" is +Inf`, false},
		"length":       {of(&keepingRow[float64]{Row: make([]float64, 1)}), `axis 0 of array "row" must be 8, not 1`, false},
		"strings":      {of(&keepingRow[string]{Row: make([]string, 9)}), `the length of "row" must be 8, not 9`, false},
		"no brackets":  {of(&keeping[[]float64]{make([]float64, 3)}), `array "x" must hold []float64 of shape []`, false},
		"int64":        {of(&keeping[int64]{math.MinInt64}), "", false},
		"float32":      {of(&keeping[float32]{.1}), "", false},
		"truth values": {of(&keepingRow[bool]{Row: []bool{true, 7: true}}), "", false},
		"words":        {of(&keepingRow[string]{Row: []string{"a", "", 7: "b"}}), "", false},
	} {
		in, fitted := classifier(60), false
		in.Detector = own(&fitted, tt.made)
		b, err := attach.Fit(t.Context(), in)
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if err := b.Save(t.Context(), t.TempDir()+"/own.attach", in.Detector); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), `"box"`) || errors.Is(err, attach.ErrDamaged) || fitted == tt.before {
			t.Errorf("%s: error %v after a fit %v, want %q", name, err, fitted, tt.want)
		}
	}
}

// A method without a New cannot open a file, and Open returns an error that says so.
func TestOpenWithoutNew(t *testing.T) {
	in, fitted := classifier(60), false
	in.Detector = own(&fitted, func() any { return &keeping[int]{} })
	path := t.TempDir() + "/own.attach"
	if err := mustFit(t, in).Save(t.Context(), path, in.Detector); err != nil {
		t.Fatal(err)
	}
	in.Detector.New = nil
	if _, err := attach.Open(path, in.Detector); err == nil || !strings.Contains(err.Error(), `method "box" has no function New`) {
		t.Error(err)
	}
}

// drawing returns its own quantiles.
type drawing struct {
	N    int `state:"n"`
	make func(n int, levels []float64) ood.Quantiles
}

func (d *drawing) Quantiles(x blas32.General, levels []float64) ood.Quantiles {
	return d.make(x.Rows, levels)
}

// The fit rejects quantiles of another shape than requested, or that cross, and names the
// method.
func TestOwnQuantiles(t *testing.T) {
	for name, tt := range map[string]struct {
		make func(n int, levels []float64) ood.Quantiles
		want string
	}{
		"few rows":     {func(n int, l []float64) ood.Quantiles { return ood.NewQuantiles(n-1, 1, l) }, "for 11 rows, 1 targets and 31 levels, want 12 rows and 31 levels"},
		"few levels":   {func(n int, l []float64) ood.Quantiles { return ood.NewQuantiles(n, 1, l[1:]) }, "and 30 levels, want 12 rows and 31 levels"},
		"no targets":   {func(n int, l []float64) ood.Quantiles { return ood.NewQuantiles(n, 0, l) }, "0 targets"},
		"more targets": {func(n int, l []float64) ood.Quantiles { return ood.NewQuantiles(n, 2, l) }, "interval model: it predicts 2 targets, but the calibration rows have 1"},
		"nothing":      {func(int, []float64) ood.Quantiles { return ood.Quantiles{} }, "returned 0 numbers"},
		"crossing": {func(n int, l []float64) ood.Quantiles {
			q := ood.NewQuantiles(n, 1, l)
			for i := range q.Data {
				q.Data[i] = -float32(i)
			}
			return q
		}, "its quantiles cross: for row 0 and target 0, -0 at level 0.001 and -1 at level 0.0025"},
	} {
		in := regressor(1, 60, 1)
		in.SkipDetector = true
		in.IntervalModel = ood.Method{Name: "line", Needs: ood.Needs{Features: true, Targets: true}, New: func() any { return &drawing{make: tt.make} }}
		in.IntervalModel.Fit = func(context.Context, ood.Training, ood.Params) (any, error) { return &drawing{make: tt.make}, nil }
		if _, err := attach.Fit(t.Context(), in); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "interval model: ") || errors.Is(err, attach.ErrDamaged) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
	}
}

// Values that neither a fit nor a file created are errors.
func TestEmptyBundles(t *testing.T) {
	var none *attach.Bundle
	for want, b := range map[string]*attach.Bundle{
		"the bundle is empty; create one with Fit, Open or Read":            {},
		`method "knn" is not fitted; create bundles with Fit, Open or Read`: {Detector: &attach.Fitted{Method: "knn"}},
	} {
		if _, err := b.Predictor(attach.PredictOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if err := b.Write(io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := none.Predictor(attach.PredictOptions{}); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Error(err)
	}
	in := classifier(60)
	if _, err := predict(mustFit(t, in), attach.Rows{Batch: in.Batch, First: -5}, attach.PredictOptions{}); err == nil || !strings.Contains(err.Error(), "Rows.First is -5") {
		t.Error(err)
	}
}
