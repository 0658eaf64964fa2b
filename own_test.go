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

// statefulFit is the fit of a custom detector. Its saved state X may be of any type.
type statefulFit[T any] struct {
	X T `state:"x"`
}

func (*statefulFit[T]) Score(_ context.Context, dst []float64, _ ood.Batch) error {
	for i := range dst {
		dst[i] = float64(i)
	}
	return nil
}

// statefulRowFit has a state of one value for each feature.
type statefulRowFit[T any] struct {
	statefulFit[bool]
	Row []T `state:"row[features]"`
}

// customMethod returns a detector whose Fit and New return the value of makeFit. Its Fit sets
// fitted.
func customMethod(fitted *bool, makeFit func() any) ood.Method {
	return ood.Method{Name: "box", Needs: ood.Needs{Features: true}, New: makeFit, Fit: func(context.Context, ood.Training, ood.Params) (any, error) {
		*fitted = true
		return makeFit(), nil
	}}
}

// TestOwnStates checks that Fit returns an error for a state that a file could not restore. If
// the type of the state cannot be saved, the error must come before the method is fitted.
func TestOwnStates(t *testing.T) {
	constant := func(x any) func() any { return func() any { return x } }
	for name, tt := range map[string]struct {
		makeFit   func() any
		want      string
		beforeFit bool
	}{
		"map":          {constant(&statefulFit[map[string]int]{}), "the field X of attach_test.statefulFit[map[string]int] is of type map[string]int, which no file keeps", true},
		"matrix":       {constant(&statefulFit[[][]float64]{}), "is of type [][]float64, which no file keeps", true},
		"inside":       {constant(&statefulFit[[]statefulFit[int8]]{}), "the field X of attach_test.statefulFit[int8] is of type int8", true},
		"pointer":      {constant(&statefulFit[*int]{}), "is of type *int", true},
		"nil":          {constant(&statefulFit[*statefulFit[int]]{}), "", false},
		"nothing":      {constant(&statefulFit[any]{}), "cannot save its fitted state: rows: a interface {} cannot be saved as \"x\"", false},
		"NaN":          {constant(&statefulFit[float64]{math.NaN()}), `detector box: method "box": cannot save its fitted state: parameter "x" is NaN`, false},
		"infinity":     {constant(&statefulFit[float32]{float32(math.Inf(1))}), `parameter "x" is +Inf`, false},
		"length":       {constant(&statefulRowFit[float64]{Row: make([]float64, 1)}), `axis 0 of array "row" must be 8, not 1`, false},
		"strings":      {constant(&statefulRowFit[string]{Row: make([]string, 9)}), `the length of "row" must be 8, not 9`, false},
		"no brackets":  {constant(&statefulFit[[]float64]{make([]float64, 3)}), `array "x" must hold []float64 of shape []`, false},
		"int64":        {constant(&statefulFit[int64]{math.MinInt64}), "", false},
		"float32":      {constant(&statefulFit[float32]{.1}), "", false},
		"truth values": {constant(&statefulRowFit[bool]{Row: []bool{true, 7: true}}), "", false},
		"words":        {constant(&statefulRowFit[string]{Row: []string{"a", "", 7: "b"}}), "", false},
	} {
		in, fitted := classifier(60), false
		in.Detector = customMethod(&fitted, tt.makeFit)
		b, err := attach.Fit(t.Context(), in)
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if err := b.Save(t.Context(), t.TempDir()+"/own.attach", in.Detector); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), `"box"`) || errors.Is(err, attach.ErrDamaged) || fitted == tt.beforeFit {
			t.Errorf("%s: error %v after a fit %v, want %q", name, err, fitted, tt.want)
		}
	}
}

// TestOpenWithoutNew checks that Open returns a clear error for a method without a New
// function.
func TestOpenWithoutNew(t *testing.T) {
	in, fitted := classifier(60), false
	in.Detector = customMethod(&fitted, func() any { return &statefulFit[int]{} })
	path := t.TempDir() + "/own.attach"
	if err := mustFit(t, in).Save(t.Context(), path, in.Detector); err != nil {
		t.Fatal(err)
	}
	in.Detector.New = nil
	if _, err := attach.Open(path, in.Detector); err == nil || !strings.Contains(err.Error(), `method "box" has no function New`) {
		t.Error(err)
	}
}

// customQuantiles is the fit of a custom interval method, whose quantiles are the result of a
// function.
type customQuantiles struct {
	N         int `state:"n"`
	quantiles func(n int, levels []float64) ood.Quantiles
}

func (d *customQuantiles) Quantiles(x blas32.General, levels []float64) ood.Quantiles {
	return d.quantiles(x.Rows, levels)
}

// TestOwnQuantiles checks that Fit returns an error if the quantiles of a custom method
// cross or do not have the requested shape. The error must name the interval model.
func TestOwnQuantiles(t *testing.T) {
	for name, tt := range map[string]struct {
		quantiles func(n int, levels []float64) ood.Quantiles
		want      string
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
		in.IntervalModel = ood.Method{Name: "line", Needs: ood.Needs{Features: true, Targets: true}, New: func() any { return &customQuantiles{quantiles: tt.quantiles} }}
		in.IntervalModel.Fit = func(context.Context, ood.Training, ood.Params) (any, error) {
			return &customQuantiles{quantiles: tt.quantiles}, nil
		}
		if _, err := attach.Fit(t.Context(), in); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "interval model: ") || errors.Is(err, attach.ErrDamaged) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
	}
}

// TestEmptyBundles checks that Predictor and Write return errors for a Bundle that comes
// neither from Fit nor from a file. It also checks that Predict returns an error if Rows.First
// is negative.
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
