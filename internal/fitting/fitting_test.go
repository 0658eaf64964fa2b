package fitting_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

func matrix(n, h int) blas32.General {
	m := blas32.General{Rows: n, Cols: h, Stride: h, Data: make([]float32, n*h)}
	for i := range m.Data {
		m.Data[i] = float32(i)
	}
	return m
}

// countingInputs counts calls of Select.
type countingInputs struct {
	ood.Inputs
	times *int
}

func (s countingInputs) Select(rows []int) ood.Inputs {
	*s.times++
	return s.Inputs.Select(rows)
}

// constant is a detector that leaves all scores at 0.
type constant struct{}

// hidden has a saved field that is not exported, which is invalid.
type hidden struct {
	constant
	mean float64 `state:"mean"`
}

func (*constant) Score(context.Context, []float64, ood.Batch) error { return nil }

// TestScoreLeavesInputs checks that Score does not copy the inputs if the method does not
// need them.
func TestScoreLeavesInputs(t *testing.T) {
	m := ood.Method{Name: "m", Needs: ood.Needs{Features: true}, Fit: func(context.Context, ood.Training, ood.Params) (any, error) { return &constant{}, nil }}
	times := 0
	b := ood.Batch{Features: matrix(4, 2), Inputs: countingInputs{ood.BlockOf([]int{4, 1}, make([]float32, 4)), &times}}
	s, err := fitting.Fit(context.Background(), m, ood.Training{Batch: b}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Score(context.Background(), nil, b); err != nil || times > 0 {
		t.Errorf("inputs were selected %d times, %v", times, err)
	}
}

// TestMalformedInputs checks that Fit and Score refuse a block with less data than its
// shape needs.
func TestMalformedInputs(t *testing.T) {
	m := ood.Method{Name: "m", Needs: ood.Needs{Inputs: true, Network: true}, Fit: func(context.Context, ood.Training, ood.Params) (any, error) { return &constant{}, nil }}
	b := ood.Batch{Inputs: ood.BlockOf([]int{100, 3}, make([]float32, 300)), Network: struct{ ood.Network }{}}
	s, err := fitting.Fit(t.Context(), m, ood.Training{Batch: b}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Inputs = ood.BlockOf([]int{100, 3}, make([]float32, 299))
	const want = "a tensor of shape [100 3] has 299 numbers"
	if _, err := s.Score(t.Context(), nil, b); err == nil || err.Error() != want {
		t.Errorf("score: error %v, want %s", err, want)
	}
	if _, err := fitting.Fit(t.Context(), m, ood.Training{Batch: b}, nil); err == nil || err.Error() != want {
		t.Errorf("fit: error %v, want %s", err, want)
	}
}

// TestMethodsAreChecked checks that Fit and Restore refuse invalid results of a
// user-defined method.
func TestMethodsAreChecked(t *testing.T) {
	b := ood.Batch{Features: matrix(4, 2)}
	for _, made := range []any{nil, 3, constant{}, &struct{}{}} {
		fit := func(context.Context, ood.Training, ood.Params) (any, error) { return made, nil }
		m := ood.Method{Name: "m", Needs: ood.Needs{Features: true}, Fit: fit}
		if _, err := fitting.Fit(t.Context(), m, ood.Training{Batch: b}, nil); err == nil || !strings.Contains(err.Error(), `"m": its Fit returned`) {
			t.Errorf("a Fit that makes %T is %v", made, err)
		}
		m.Fit = func(context.Context, ood.Training, ood.Params) (any, error) { return &constant{}, nil }
		s, err := fitting.Fit(t.Context(), m, ood.Training{Batch: b}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fitting.Restore(m, s.State()); err == nil || !strings.Contains(err.Error(), `"m" has no function New`) {
			t.Error(err)
		}
		m.New = func() any { return made }
		if _, err := fitting.Restore(m, s.State()); err == nil || !strings.Contains(err.Error(), `"m": its New returned`) {
			t.Errorf("a New that makes %T is %v", made, err)
		}
		m.Fit = nil
		if _, err := fitting.Fit(t.Context(), m, ood.Training{Batch: b}, nil); err == nil || !strings.Contains(err.Error(), `has no function Fit`) {
			t.Error(err)
		}
	}
	m := ood.Method{Name: "m", Needs: ood.Needs{Features: true}, Fit: func(context.Context, ood.Training, ood.Params) (any, error) { return &hidden{mean: 1}, nil }}
	if _, err := fitting.Fit(t.Context(), m, ood.Training{Batch: b}, nil); err == nil || !strings.Contains(err.Error(), "the field mean of fitting_test.hidden has a tag") {
		t.Error(err)
	}
	if _, err := fitting.Fit(t.Context(), ood.Method{Name: "m"}, ood.Training{Batch: b}, nil); err == nil || !strings.Contains(err.Error(), "has no function Fit") {
		t.Error(err)
	}
	if all, err := fitting.ScoreGrid(t.Context(), nil, b, nil); len(all) > 0 || err != nil {
		t.Errorf("no scorers score %v, %v", all, err)
	}
}

// TestFitRefusesShortMatrices checks that Fit refuses a matrix with less data than its
// shape needs.
func TestFitRefusesShortMatrices(t *testing.T) {
	short := blas32.General{Rows: 4, Cols: 2, Stride: 2, Data: make([]float32, 5)}
	fit := func(context.Context, ood.Training, ood.Params) (any, error) { return constant{}, nil }
	complete := ood.Training{Batch: ood.Batch{Features: matrix(4, 2), Logits: matrix(4, 4)}, Targets: matrix(4, 2), Levels: []float64{.5}}
	targets, validation, to, layer := complete, complete, complete, complete
	targets.Targets = short
	validation.Validation, validation.ValidationTargets = short, matrix(4, 2)
	to.Validation, to.ValidationTargets = matrix(4, 2), short
	layer.Last = &ood.Linear{Weight: short}
	for what, t1 := range map[string]ood.Training{"targets": targets, "validation rows": validation, "validation targets": to, "the last layer's weights": layer} {
		m := ood.Method{Name: "m", Needs: ood.Needs{Features: true, Targets: true}, Fit: fit}
		if t1.Last != nil {
			m.Needs = ood.Needs{Features: true, Weights: true}
		}
		if _, err := fitting.Fit(context.Background(), m, t1, nil); err == nil || !strings.HasPrefix(err.Error(), what+": 5 numbers are too few") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestNeeds(t *testing.T) {
	m := ood.Method{Name: "covariance", Needs: ood.Needs{Features: true}}
	err := fitting.CheckBatch(m, ood.Batch{Logits: matrix(2, 2)}, "the rows to score")
	if want := `method "covariance" needs features: the rows to score have none`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	var need *ood.NeedError
	if !errors.As(err, &need) || !need.Need.Features || need.Method != "covariance" {
		t.Errorf("%#v", err)
	}
	m.Needs = fitting.Union(m.Needs, ood.Needs{Labels: true, Weights: true, Trainer: true, Outliers: true})
	// Labels, weights, a trainer and outliers are needed only for the fit, so CheckBatch
	// ignores them.
	if err := fitting.CheckBatch(m, ood.Batch{Features: matrix(2, 2)}, "the rows to score"); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		training ood.Training
		want     string
	}{
		{ood.Training{}, `method "covariance" needs features: the fit rows have none`},
		{ood.Training{Batch: ood.Batch{Features: matrix(2, 2)}}, `method "covariance" needs labels: the fit rows have none`},
		{ood.Training{Batch: ood.Batch{Features: matrix(2, 2), Labels: []int{0, 1}}},
			`method "covariance" needs the last layer's weights: the fit rows lack them`},
		{ood.Training{Batch: ood.Batch{Features: matrix(2, 2), Labels: []int{0, 1}}, Last: &ood.Linear{}},
			`method "covariance" needs a trainer: the fit rows lack one`},
		{ood.Training{Regression: true}, `method "covariance" needs features: the fit rows have none`},
	} {
		if err := fitting.Check(m, c.training, nil); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	entropy := ood.Method{Name: "entropy", Needs: ood.Needs{Logits: true}}
	err = fitting.Check(entropy, ood.Training{Batch: ood.Batch{Features: matrix(2, 2)}, Regression: true}, nil)
	if want := `method "entropy" needs logits: the rows of a regressor have none`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if got := (ood.Needs{Features: true, Weights: true}).String(); got != "features, the last layer's weights" {
		t.Error(got)
	}
}

func TestNeedsOfBatches(t *testing.T) {
	m := ood.Method{Name: "m", Needs: ood.Needs{Layers: true}}
	b := ood.Batch{Features: matrix(4, 2), Layers: []blas32.General{matrix(4, 3)}}
	if err := fitting.CheckBatch(m, b, "the rows to score"); err != nil {
		t.Error(err)
	}
	var need *ood.NeedError
	if err := fitting.Check(m, ood.Training{Batch: ood.Batch{Features: b.Features}}, nil); !errors.As(err, &need) || !need.Need.Layers {
		t.Error(err)
	}
	b = ood.Batch{Inputs: ood.BlockOf([]int{4, 2}, make([]float32, 8))}
	m = ood.Method{Name: "m", Needs: ood.Needs{Inputs: true, Network: true}}
	if err := fitting.Check(m, ood.Training{}, nil); !errors.As(err, &need) || !need.Need.Network {
		t.Errorf("error %v, want that the network is needed", err)
	}
	if err := fitting.CheckBatch(m, ood.Batch{}, "the rows to score"); !errors.As(err, &need) || !need.Need.Inputs {
		t.Errorf("error %v, want that inputs are needed", err)
	}
	if err := fitting.CheckBatch(m, b, "the rows to score"); err != nil {
		t.Error(err)
	}
}

func ExampleCheck() {
	err := fitting.Check(ood.Method{Name: "norm", Needs: ood.Needs{Features: true}}, ood.Training{}, nil)
	var need *ood.NeedError
	fmt.Println(errors.As(err, &need), strings.ToUpper(err.Error()[:1])+err.Error()[1:])
	// Output: true Method "norm" needs features: the fit rows have none
}
