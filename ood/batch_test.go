package ood_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/paired"
	"github.com/attach-uncertainty/attach/ood"
)

func matrix(n, h int) blas32.General {
	m := blas32.General{Rows: n, Cols: h, Stride: h, Data: make([]float32, n*h)}
	for i := range m.Data {
		m.Data[i] = float32(i)
	}
	return m
}

func TestBatchSlice(t *testing.T) {
	b := ood.Batch{Features: matrix(5, 3), Logits: matrix(5, 2), Labels: []int{0, 1, 0, 1, 0}}
	b.Features.Cols = 2 // the third column is room between rows
	for i := range 6 {
		for j := i; j <= 5; j++ {
			s := b.Slice(i, j)
			if s.Len() != j-i || s.Features.Cols == 0 || s.Logits.Cols == 0 || len(s.Labels) != j-i {
				t.Fatalf("rows %d to %d: %+v", i, j, s)
			}
			if err := s.Validate(); err != nil {
				t.Fatal(err)
			}
			for r := range s.Len() {
				if got, want := s.Features.Data[r*s.Features.Stride+1], b.Features.Data[(i+r)*3+1]; got != want {
					t.Fatalf("rows %d to %d: row %d has %v, want %v", i, j, r, got, want)
				}
			}
		}
	}
	if got := (ood.Batch{Logits: matrix(4, 2)}).Slice(1, 3); got.Features.Cols > 0 || got.Labels != nil || got.Len() != 2 {
		t.Errorf("%+v", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic beyond the last row")
		}
	}()
	b.Slice(3, 6)
}

// selecting counts how often rows are selected of it.
type selecting struct {
	ood.Inputs
	times *int
}

func (s selecting) Select(rows []int) ood.Inputs {
	*s.times++
	return s.Inputs.Select(rows)
}

type constant struct{}

type hidden struct {
	constant
	mean float64 `state:"mean"`
}

func (*constant) Score(context.Context, []float64, ood.Batch) error { return nil }

// Inputs that a method does not read are not copied to score with it.
func TestScoreLeavesInputs(t *testing.T) {
	m := ood.Method{Name: "m", Needs: ood.Needs{Features: true}, Fit: func(context.Context, ood.Training, ood.Params) (any, error) { return &constant{}, nil }}
	times := 0
	b := ood.Batch{Features: matrix(4, 2), Inputs: selecting{ood.InputsOf(ood.BlockOf([]int{4, 1}, make([]float32, 4))), &times}}
	s, err := ood.Fit(context.Background(), m, ood.Training{Batch: b}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Score(context.Background(), nil, b); err != nil || times > 0 {
		t.Errorf("inputs were selected %d times, %v", times, err)
	}
}

// What a program's own method makes is refused where it is no method's.
func TestMethodsAreChecked(t *testing.T) {
	b := ood.Batch{Features: matrix(4, 2)}
	for _, made := range []any{nil, 3, constant{}, &struct{}{}} {
		fit := func(context.Context, ood.Training, ood.Params) (any, error) { return made, nil }
		m := ood.Method{Name: "m", Needs: ood.Needs{Features: true}, Fit: fit, New: func() any { return made }}
		if _, err := ood.Fit(t.Context(), m, ood.Training{Batch: b}, nil); err == nil || !strings.Contains(err.Error(), `"m": its Fit returned`) {
			t.Errorf("a Fit that makes %T is %v", made, err)
		}
		m.Fit = func(context.Context, ood.Training, ood.Params) (any, error) { return &constant{}, nil }
		s, err := ood.Fit(t.Context(), m, ood.Training{Batch: b}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ood.Restore(m, s.State()); err == nil || !strings.Contains(err.Error(), `"m": its New returned`) {
			t.Errorf("a New that makes %T is %v", made, err)
		}
	}
	m := ood.Method{Name: "m", Needs: ood.Needs{Features: true}, Fit: func(context.Context, ood.Training, ood.Params) (any, error) { return &hidden{mean: 1}, nil }}
	if _, err := ood.Fit(t.Context(), m, ood.Training{Batch: b}, nil); err == nil || !strings.Contains(err.Error(), "the field mean of *ood_test.hidden has a tag") {
		t.Error(err)
	}
	if _, err := ood.Fit(t.Context(), ood.Method{Name: "m"}, ood.Training{Batch: b}, nil); err == nil || !strings.Contains(err.Error(), "it has no Fit") {
		t.Error(err)
	}
	if all, err := ood.ScoreGrid(t.Context(), nil, b, nil); len(all) > 0 || err != nil {
		t.Errorf("no scorers score %v, %v", all, err)
	}
}

// Matrices of a training that are shorter than they say are an error.
func TestFitRefusesShortMatrices(t *testing.T) {
	short := blas32.General{Rows: 4, Cols: 2, Stride: 2, Data: make([]float32, 5)}
	fit := func(context.Context, ood.Training, ood.Params) (any, error) { return constant{}, nil }
	whole := ood.Training{Batch: ood.Batch{Features: matrix(4, 2), Logits: matrix(4, 4)}, Targets: matrix(4, 2), Levels: []float64{.5}}
	targets, validation, to, layer := whole, whole, whole, whole
	targets.Targets = short
	validation.Validation, validation.ValidationTargets = short, matrix(4, 2)
	to.Validation, to.ValidationTargets = matrix(4, 2), short
	layer.Last = &ood.Linear{Weight: short}
	for what, t1 := range map[string]ood.Training{"targets": targets, "validation rows": validation, "validation targets": to, "the last layer's weights": layer} {
		m := ood.Method{Name: "m", Needs: ood.Needs{Features: true, Targets: true}, Fit: fit}
		if t1.Last != nil {
			m.Needs = ood.Needs{Features: true, Weights: true}
		}
		if _, err := ood.Fit(context.Background(), m, t1, nil); err == nil || !strings.HasPrefix(err.Error(), what+": 5 numbers are too few") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Layers go where the other parts of a batch go.
func TestBatchLayers(t *testing.T) {
	b := ood.Batch{Features: matrix(4, 2), Layers: []blas32.General{matrix(4, 3), matrix(4, 1)}}
	for name, got := range map[string]ood.Batch{"slice": b.Slice(1, 3), "select": b.Select([]int{1, 2})} {
		if len(got.Layers) != 2 || got.Layers[0].Rows != 2 || got.Layers[0].Data[0] != 3 || got.Layers[1].Data[1] != 2 {
			t.Errorf("%s: %+v", name, got.Layers)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if alone := (ood.Batch{Layers: b.Layers}); alone.Len() != 4 || len(alone.Layers) == 0 {
		t.Errorf("layers alone are %d rows", alone.Len())
	}
	if b.Slice(0, 4).Select(nil).Layers[0].Rows != 0 || len((ood.Batch{Features: b.Features}).Select([]int{1}).Layers) > 0 {
		t.Error("selecting makes up layers")
	}
	m := ood.Method{Name: "m", Needs: ood.Needs{Layers: true}}
	if err := m.CheckBatch(b, "the rows to score"); err != nil {
		t.Error(err)
	}
	var need *ood.NeedError
	if err := m.Check(ood.Training{Batch: ood.Batch{Features: b.Features}}, nil); !errors.As(err, &need) || !need.Need.Layers {
		t.Error(err)
	}
}

func TestBatchValidate(t *testing.T) {
	for _, c := range []struct {
		b    ood.Batch
		want string
	}{
		{ood.Batch{}, ""},
		{ood.Batch{Features: matrix(2, 2), Labels: []int{7, 0}}, ""},
		{ood.Batch{Features: matrix(2, 2), Logits: matrix(3, 2)}, "2 rows but logits of 3×2"},
		{ood.Batch{Features: matrix(2, 2), Labels: []int{1}}, "2 rows but 1 labels"},
		{ood.Batch{Logits: matrix(2, 2), Labels: []int{1, 2}}, "label 2 of row 1 is outside [0,2)"},
		{ood.Batch{Features: matrix(2, 2), Labels: []int{1, -1}}, "label -1 of row 1 is negative"},
		{ood.Batch{Features: matrix(2, 2), Layers: []blas32.General{matrix(2, 5), matrix(3, 1)}}, "2 rows but layer_1 of 3×1"},
		{ood.Batch{Features: matrix(2, 2), Layers: []blas32.General{{Rows: 2}}}, "2 rows but layer_0 of 2×0"},
		{ood.Batch{Features: blas32.General{Rows: 1, Cols: 2, Stride: 9, Data: make([]float32, 2)}}, ""},
		{ood.Batch{Features: blas32.General{Cols: 2}}, ""},
		{ood.Batch{Features: blas32.General{Rows: 2, Cols: 2, Data: make([]float32, 4)}}, "features: a stride of 0 is too small for 2 columns"},
		{ood.Batch{Features: matrix(2, 2), Logits: blas32.General{Rows: 2, Cols: 3, Stride: 3, Data: make([]float32, 5, 6)}}, "logits: 5 numbers are too few for 2 rows of stride 3"},
		{ood.Batch{Features: matrix(2, 2), Layers: []blas32.General{{Rows: 2, Cols: 1, Stride: 1}}}, "layer_0: 0 numbers are too few for 2 rows of stride 1"},
		{paired.Batch(ood.Batch{Logits: blas32.General{Rows: 2, Cols: 1, Stride: 1}}), "logits: 0 numbers are too few for 2 rows of stride 1"},
		{paired.Batch(ood.Batch{Logits: matrix(2, 1), Labels: []int{0, 1}}), ""},
		{ood.Batch{Features: blas32.General{Rows: -1, Cols: 2, Stride: 2}}, "features: there are -1 rows"},
	} {
		got := ""
		if err := c.b.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestNeeds(t *testing.T) {
	m := ood.Method{Name: "covariance", Needs: ood.Needs{Features: true}}
	err := m.CheckBatch(ood.Batch{Logits: matrix(2, 2)}, "the rows to score")
	if want := `method "covariance" needs features: the rows to score carry none`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	var need *ood.NeedError
	if !errors.As(err, &need) || !need.Need.Features || need.Method != "covariance" {
		t.Errorf("%#v", err)
	}
	m.Needs = m.Needs.Or(ood.Needs{Labels: true, Weights: true, Trainer: true, Outliers: true})
	// Labels and abilities are for fitting only.
	if err := m.CheckBatch(ood.Batch{Features: matrix(2, 2)}, "the rows to score"); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		training ood.Training
		want     string
	}{
		{ood.Training{}, `method "covariance" needs features: the rows to fit with carry none`},
		{ood.Training{Batch: ood.Batch{Features: matrix(2, 2)}}, `method "covariance" needs labels: the rows to fit with carry none`},
		{ood.Training{Batch: ood.Batch{Features: matrix(2, 2), Labels: []int{0, 1}}},
			`method "covariance" needs the last layer's weights: the rows to fit with come without them`},
		{ood.Training{Batch: ood.Batch{Features: matrix(2, 2), Labels: []int{0, 1}}, Last: &ood.Linear{}},
			`method "covariance" needs a trainer: the rows to fit with come without one`},
		{ood.Training{Regression: true}, `method "covariance" needs features: the rows to fit with carry none`},
	} {
		if err := m.Check(c.training, nil); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	entropy := ood.Method{Name: "entropy", Needs: ood.Needs{Logits: true}}
	err = entropy.Check(ood.Training{Batch: ood.Batch{Features: matrix(2, 2)}, Regression: true}, nil)
	if want := `method "entropy" needs logits: the rows of a regressor carry none`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if got := (ood.Needs{Features: true, Weights: true}).String(); got != "features, the last layer's weights" {
		t.Error(got)
	}
}

func ExampleMethod_Check() {
	err := ood.Method{Name: "norm", Needs: ood.Needs{Features: true}}.Check(ood.Training{}, nil)
	var need *ood.NeedError
	fmt.Println(errors.As(err, &need), strings.ToUpper(err.Error()[:1])+err.Error()[1:])
	// Output: true Method "norm" needs features: the rows to fit with carry none
}
