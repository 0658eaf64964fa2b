package baselines_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

// problem is the content of a file that a script in testdata writes. The script fixture.py
// documents the fields.
type problem struct {
	Train, Test part
	Last        *struct {
		Weight [][]float32
		Bias   []float32
	}
	Network *struct {
		Hidden [][]float64
		Shift  []float64
		Scale  []float32
		Passes [][][]float32
	}
	Scores []reference
}

type part struct {
	Features, Logits, Targets, Outliers [][]float32
	Labels                              []int
	Layers                              [][][]float32
	Levels                              []float64
	Inputs                              struct {
		Shape []int
		Data  []float32
	}
}

type reference struct {
	Method  string
	Params  ood.Params
	Without []string
	Trained [][]struct {
		W [][]float32
		B []float32
	}
	Tolerance, Absolute float64
	Scores              []float64
}

func toMatrix(rows [][]float32) blas32.General {
	m := blas32.General{Rows: len(rows), Data: slices.Concat(rows...)}
	if m.Rows > 0 {
		m.Cols, m.Stride = len(rows[0]), len(rows[0])
	}
	return m
}

func (p part) batch() ood.Batch {
	b := ood.Batch{Features: toMatrix(p.Features), Logits: toMatrix(p.Logits), Labels: p.Labels}
	for _, l := range p.Layers {
		b.Layers = append(b.Layers, toMatrix(l))
	}
	if p.Inputs.Data != nil {
		b.Inputs = ood.BlockOf(p.Inputs.Shape, p.Inputs.Data)
	}
	return b
}

// training returns the training data that the detector or interval model of r was fitted
// to.
func (p problem) training(r reference) ood.Training {
	t := ood.Training{
		Batch: p.Train.batch(), Outliers: ood.Batch{Features: toMatrix(p.Train.Outliers)},
		Targets: toMatrix(p.Train.Targets), Levels: p.Train.Levels, Trainer: &fixedTrainer{},
	}
	if slices.Contains(r.Without, "labels") {
		t.Labels = nil
	}
	if slices.Contains(r.Without, "logits") {
		t.Logits = blas32.General{}
	}
	if p.Last != nil {
		t.Last = &ood.Linear{Weight: toMatrix(p.Last.Weight), Bias: p.Last.Bias}
	}
	if n := p.Network; n != nil {
		slope := func(v float64) float64 { return 1 - math.Tanh(v)*math.Tanh(v) }
		t.Network = recordedNetwork{twoLayers{hidden: n.Hidden, shift: n.Shift, activation: math.Tanh, slope: slope, last: t.Last}, n.Passes}
		t.InputScale = ood.InputScale{Factor: n.Scale}
	}
	var networks fixedTrainer
	for _, layers := range r.Trained {
		var n train.Network
		for _, l := range layers {
			n.Layers = append(n.Layers, train.Layer{W: toMatrix(l.W), B: l.B})
		}
		networks = append(networks, n)
	}
	t.Trainer = &networks
	return t
}

// fixedTrainer is a Trainer that returns the given networks without training.
type fixedTrainer []train.Network

func (h *fixedTrainer) Train(_ context.Context, p train.Problem) ([]train.Network, error) {
	n := len(p.Models)
	if n > len(*h) {
		return nil, fmt.Errorf("asked for %d networks, and %d are given", n, len(*h))
	}
	networks := (*h)[:n]
	*h = (*h)[n:]
	return networks, nil
}

// recordedNetwork is a network that returns dropout passes from a file. If more passes are
// needed, it repeats them.
type recordedNetwork struct {
	twoLayers
	z [][][]float32 // logits of the passes: passes × rows × classes
}

func (n recordedNetwork) Dropouts() int { return 1 }

func (n recordedNetwork) Dropout(_ context.Context, x ood.InputBlock, passes int, _ float64, _ uint64) ([]float32, error) {
	var z []float32
	for s := range passes {
		z = append(z, slices.Concat(n.z[s%len(n.z)][x.Start:x.Start+x.Len()]...)...)
	}
	return z, nil
}

// TestReferences checks scores and quantiles against values in testdata that were computed
// independently. Every method except a control must have such values for its default
// configuration.
func TestReferences(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	covered := map[string]bool{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var p problem
		if err := json.Unmarshal(b, &p); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, r := range p.Scores {
			m := method(r.Method)
			all, err := fitting.With(m, r.Params)
			if err != nil {
				t.Fatal(err)
			}
			covered[m.Name+" "+all.String()] = true
			t.Run(fmt.Sprint(r.Method, " ", r.Params, r.Without), func(t *testing.T) {
				s, err := fitting.Fit(background, m, p.training(r), r.Params)
				if err != nil {
					t.Fatal(err)
				}
				got := predictions(t, s, p.Test.batch(), p.Test.Levels)
				if len(got) != len(r.Scores) {
					t.Fatalf("%d scores, want %d", len(got), len(r.Scores))
				}
				for i, want := range r.Scores {
					if !(math.Abs(got[i]-want) <= r.Tolerance*math.Abs(want)+r.Absolute) {
						t.Errorf("score %d is %v, want %v (off by %.1g)", i, got[i], want, math.Abs(got[i]-want))
					}
				}
			})
		}
	}
	for _, m := range attach.Methods() {
		if !m.Control && !covered[m.Name+" "+fitting.Default(m).String()] {
			t.Errorf("no reference scores of %s in its default configuration", m.Name)
		}
	}
}
