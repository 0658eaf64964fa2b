package fit

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
)

// overfitting returns a problem with few rows and enough hidden units to learn their noise.
// It has the given number of held-out rows.
func overfitting(loss train.Loss, held int) train.Problem {
	p := train.Problem{
		X: normal(1, 40, 3), Y: normal(2, 40, 2), Hidden: []int{32}, Outputs: 1, Loss: loss, Epochs: 40, BatchSize: 16,
		Models: []train.ModelConfig{
			{Seed: 1, LearningRate: 1e-2},
			{Seed: 1, LearningRate: 3e-3, Target: 1, Averaging: 0.8},
			{Seed: 2, LearningRate: 1e-2, Dropout: 0.3},
		},
		Validation: &train.Validation{X: normal(3, held, 3), Y: normal(4, held, 2)},
	}
	switch loss {
	case "pinball":
		p.Conditional = true
	case "gaussian-nll":
		p.Outputs = 2
	}
	return p
}

// TestValidation checks the weights that validation keeps. They must be the same for models
// trained together and separately. For at least one model, they must come from an epoch
// before the last. They must equal the result of a training that ends after this epoch.
func TestValidation(t *testing.T) {
	e := open(t)
	for _, loss := range []train.Loss{"mse", "pinball", "gaussian-nll"} {
		t.Run(string(loss), func(t *testing.T) {
			p := overfitting(loss, 30)
			early := false
			for m, n := range trained(t, e, p) {
				q := p
				q.Models = p.Models[m : m+1]
				sameNetwork(t, n, trained(t, e, q)[0])
				early = early || n.Epoch < p.Epochs
				if n.Epoch < 1 {
					t.Fatalf("model %d kept epoch %d", m, n.Epoch)
				}
				q.Epochs, q.Validation = n.Epoch, nil
				sameNetwork(t, train.Network{Layers: n.Layers}, train.Network{Layers: trained(t, e, q)[0].Layers})
			}
			if !early {
				t.Error("no model kept an epoch before the last")
			}
		})
	}
}

// TestValidationBlocks checks that evaluation in several blocks gives the same results as
// in one.
func TestValidationBlocks(t *testing.T) {
	e := open(t)
	p := overfitting("pinball", 60)
	p.Epochs, p.Hidden = 2, []int{128}
	p.Validation.Levels = []float64{0.2, 0.5, 0.7}
	alone := trained(t, e, p)
	original := p.Models
	for len(p.Models) < 300 {
		p.Models = append(p.Models, original...)
	}
	if block := validationFloats / (len(p.Models) * 128); block >= 180 {
		t.Fatalf("a block has %d rows: all in one", block)
	}
	for m, n := range trained(t, e, p) {
		want := alone[m%len(original)]
		if n.Epoch != want.Epoch || math.Abs(n.Validation-want.Validation) > 1e-4*want.Validation {
			t.Fatalf("model %d: epoch %d and loss %v in blocks, %d and %v at once", m, n.Epoch, n.Validation, want.Epoch, want.Validation)
		}
	}
}

// TestValidationPace checks that the last epoch is evaluated, and that the number of
// evaluations is as documented in train.Validation.
func TestValidationPace(t *testing.T) {
	r, err := open(t).runtime(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ epochs, want int }{{1000, 100}, {250, 125}, {30, 30}, {299, 150}} {
		p := overfitting("mse", 5)
		p.Epochs = c.epochs
		v, err := newValidation(t.Context(), r, newPlan(p))
		if err != nil {
			t.Fatal(err)
		}
		defer v.close()
		got := 0
		for epoch := 1; epoch <= c.epochs; epoch++ {
			if v.isDue(epoch) {
				got++
			}
		}
		if got != c.want || !v.isDue(c.epochs) {
			t.Errorf("%d epochs: %d evaluations, want %d", c.epochs, got, c.want)
		}
	}
}

func TestBadValidation(t *testing.T) {
	for want, edit := range map[string]func(v *train.Validation){
		"validation rows are 0×0":     func(v *train.Validation) { v.X = blas32.General{} },
		"have 3 columns":              func(v *train.Validation) { v.X = normal(1, 30, 2) },
		"targets are 29×2":            func(v *train.Validation) { v.Y = normal(1, 29, 2) },
		"between 0 and 1":             func(v *train.Validation) { v.Levels = []float64{0} },
		"y to validate on has NaN in": func(v *train.Validation) { v.Y.Data[3] = float32(math.NaN()) },
	} {
		p := overfitting("pinball", 30)
		edit(p.Validation)
		if err := check(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}

func sameNetwork(t *testing.T, got, want train.Network) {
	t.Helper()
	if got.Epoch != want.Epoch || math.Abs(got.Validation-want.Validation) > 1e-3*math.Abs(want.Validation) {
		t.Errorf("epoch %d with loss %v, want %d with %v", got.Epoch, got.Validation, want.Epoch, want.Validation)
	}
	for i, l := range want.Layers {
		compare(t, fmt.Sprintf("weight of epoch %d,", want.Epoch), i, got.Layers[i].W.Data, l.W.Data, 1e-3)
		compare(t, "bias", i, got.Layers[i].B, l.B, 1e-3)
	}
}
