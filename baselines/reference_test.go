package baselines_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

type reference struct {
	Train, Test [][]float32
	TrainLogits [][]float32 `json:"train_logits"`
	TestLogits  [][]float32 `json:"test_logits"`
	Scores      []struct {
		Method string
		Params ood.Params
		Scores []float64
	}
}

func (r reference) batches() (train, test ood.Batch) {
	return ood.Batch{Features: general(r.Train), Logits: general(r.TrainLogits)},
		ood.Batch{Features: general(r.Test), Logits: general(r.TestLogits)}
}

func general(rows [][]float32) blas32.General {
	m := blas32.General{Rows: len(rows), Cols: len(rows[0]), Stride: len(rows[0])}
	for _, r := range rows {
		m.Data = append(m.Data, r...)
	}
	return m
}

func TestScoresAgreeWithNumPy(t *testing.T) {
	b, err := os.ReadFile("testdata/scores.json")
	if err != nil {
		t.Fatal(err)
	}
	var ref reference
	if err := json.Unmarshal(b, &ref); err != nil {
		t.Fatal(err)
	}
	train, test := ref.batches()
	covered := map[string]bool{}
	for _, c := range ref.Scores {
		name := c.Method + " " + c.Params.String()
		covered[name] = true
		t.Run(name, func(t *testing.T) {
			m, ok := attach.MethodByName(c.Method)
			if !ok {
				t.Fatal("no such method")
			}
			s, err := ood.Fit(context.Background(), m, ood.Training{Batch: train}, c.Params)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Score(context.Background(), nil, test)
			if err != nil {
				t.Fatal(err)
			}
			// Certificates are float32, and so are the products they are found by.
			tolerance := 1e-6
			if c.Method == "certificates" {
				tolerance = 1e-5
			}
			for i, want := range c.Scores {
				if !(math.Abs(got[i]-want) <= tolerance*math.Abs(want)+1e-12) {
					t.Errorf("row %d: %v, want %v", i, got[i], want)
				}
			}
		})
	}
	classifier := openClassifierReference(t)
	for _, m := range detectors {
		if m.Control || m.Needs&(ood.NeedTrainer|ood.NeedNetwork|ood.NeedDropout|ood.NeedWeights|ood.NeedLayers) != 0 || m.Name == "gradnorm" || featureMethods[m.Name] || classifier.has(m.Name) || m.Name == heads.FusedPValues.Name {
			continue
		}
		for _, p := range m.Grid() {
			if name := m.Name + " " + p.String(); !covered[name] {
				t.Errorf("no reference scores of %s", name)
			}
		}
	}
}
