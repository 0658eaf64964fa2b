package baselines_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/ood"
)

// featureMethods are those whose reference scores are in features.json.
var featureMethods = map[string]bool{
	"certificates-class": true, "certificates-coupled": true, "cop": true, "corp": true, "gaussian-mixture": true, "isolation-forest": true, "knn": true, "lof": true, "mahalanobis": true, "neco": true, "one-class-svm": true, "relative-mahalanobis": true, "residual": true, "vim": true,
}

func TestFeatureScoresAgreeWithPeers(t *testing.T) {
	b, err := os.ReadFile("testdata/features.json")
	if err != nil {
		t.Fatal(err)
	}
	var ref struct {
		Train, Test [][]float32
		TrainLogits [][]float32 `json:"train_logits"`
		TestLogits  [][]float32 `json:"test_logits"`
		TrainLabels []int       `json:"train_labels"`
		Weight      [][]float32
		Bias        []float32
		Scores      []struct {
			Method    string
			Params    ood.Params
			Labelled  bool
			Tolerance float64 // relative, 1e-6 if none is given
			Absolute  float64
			Scores    []float64
		}
	}
	if err := json.Unmarshal(b, &ref); err != nil {
		t.Fatal(err)
	}
	covered := map[string]bool{}
	for _, c := range ref.Scores {
		name := c.Method + " " + c.Params.String()
		covered[name] = true
		t.Run(name, func(t *testing.T) {
			m, ok := attach.MethodByName(c.Method)
			if !ok {
				t.Fatal("no such method")
			}
			training := ood.Training{
				Batch: ood.Batch{Features: general(ref.Train), Logits: general(ref.TrainLogits)},
				Last:  &ood.Linear{Weight: general(ref.Weight), Bias: ref.Bias},
			}
			if c.Labelled {
				training.Labels, training.Logits = ref.TrainLabels, zeros(0, 0)
			}
			s, err := ood.Fit(background, m, training, c.Params)
			if err != nil {
				t.Fatal(err)
			}
			got := score(t, s, ood.Batch{Features: general(ref.Test), Logits: general(ref.TestLogits)})
			tolerance := c.Tolerance
			if tolerance == 0 {
				tolerance = 1e-6
			}
			for i, want := range c.Scores {
				if !(math.Abs(got[i]-want) <= tolerance*math.Abs(want)+max(c.Absolute, 1e-9)) {
					t.Errorf("row %d: %v, want %v", i, got[i], want)
				}
			}
		})
	}
	for _, m := range detectors {
		if !featureMethods[m.Name] {
			continue
		}
		for _, p := range m.Grid() {
			// What ten clusters are depends on how they begin.
			if m.Name == "gaussian-mixture" && p["k"] == 10. {
				continue
			}
			if name := m.Name + " " + p.String(); !covered[name] {
				t.Errorf("no reference scores of %s", name)
			}
		}
	}
}
