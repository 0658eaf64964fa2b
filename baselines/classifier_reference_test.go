package baselines_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/ood"
)

type classifierReference struct {
	Train, Test [][]float32
	TrainLogits [][]float32 `json:"train_logits"`
	TestLogits  [][]float32 `json:"test_logits"`
	Labels      []int
	Weight      [][]float32
	Bias        []float32
	Scores      []struct {
		Method   string
		Params   ood.Params
		Labelled bool
		Scores   []float64
	}
}

func openClassifierReference(t *testing.T) classifierReference {
	t.Helper()
	b, err := os.ReadFile("testdata/classifier.json")
	if err != nil {
		t.Fatal(err)
	}
	var ref classifierReference
	if err := json.Unmarshal(b, &ref); err != nil {
		t.Fatal(err)
	}
	return ref
}

// has says whether a method's scores are among these, and so not in the other
// files of reference scores.
func (r classifierReference) has(method string) bool {
	for _, s := range r.Scores {
		if s.Method == method {
			return true
		}
	}
	return false
}

func (r classifierReference) training(labelled bool) ood.Training {
	t := ood.Training{
		Batch: ood.Batch{Features: general(r.Train), Logits: general(r.TrainLogits)},
		Last:  &ood.Linear{Weight: general(r.Weight), Bias: r.Bias},
	}
	if labelled {
		t.Labels = r.Labels
	}
	return t
}

func TestScoresOfAClassifier(t *testing.T) {
	ref := openClassifierReference(t)
	test := ood.Batch{Features: general(ref.Test), Logits: general(ref.TestLogits)}
	covered := map[string]bool{}
	for _, c := range ref.Scores {
		name := c.Method + " " + c.Params.String()
		covered[name] = true
		if c.Labelled {
			name += " labelled"
		}
		t.Run(name, func(t *testing.T) {
			m, ok := attach.MethodByName(c.Method)
			if !ok {
				t.Fatal("no such method")
			}
			s, err := ood.Fit(background, m, ref.training(c.Labelled), c.Params)
			if err != nil {
				t.Fatal(err)
			}
			// Products with the last layer are float32; what reads logits alone
			// is not.
			relative, absolute := 2e-6, 2e-6
			if m.Needs&ood.NeedFeatures == 0 {
				relative, absolute = 1e-9, 1e-12
			}
			for i, got := range score(t, s, test) {
				if want := c.Scores[i]; !(math.Abs(got-want) <= relative*math.Abs(want)+absolute) {
					t.Errorf("row %d: %v, want %v (off by %.1g)", i, got, want, math.Abs(got-want))
				}
			}
		})
	}
	for _, m := range detectors {
		if !ref.has(m.Name) {
			continue
		}
		for _, p := range append(m.Grid(), m.Default()) {
			if name := m.Name + " " + p.String(); !covered[name] {
				t.Errorf("no reference scores of %s", name)
			}
		}
	}
}
