package fit

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
)

// trajectory is a test case of testdata/trajectory.json, which a script in that folder
// writes.
type trajectory struct {
	Name                     string
	Hidden                   []int
	Outputs, Targets, Target int
	Loss                     train.Loss
	Conditional, Bias        bool
	Levels                   []float64
	Penalty, Decay, Rate     float64
	Batch                    int
	X, Y                     []float32
	Initial, Final           []struct{ W, B []float32 }
	Orders                   [][]int32
	Taus                     [][]float32
	Losses                   []float64

	Shared              bool // all rows share one row of targets
	Gradient, Diversity float64
	Noises              []struct { // one element per step
		Rows, Mix []float32
		Pick      []int32
	}

	Averaging, Tolerance float64
	Validated            bool
	Epoch                int
	At                   []float64
	HeldX                []float32 `json:"held_x"`
	HeldY                []float32 `json:"held_y"`
	Best                 float64
}

func (c *trajectory) problem() train.Problem {
	rows := len(c.Orders[0])
	matrix := func(data []float32, rows int) blas32.General {
		cols := len(data) / rows
		return blas32.General{Rows: rows, Cols: cols, Stride: cols, Data: data}
	}
	p := train.Problem{
		X: matrix(c.X, rows), Hidden: c.Hidden, Outputs: c.Outputs, NoBias: !c.Bias,
		Loss: c.Loss, Conditional: c.Conditional, Levels: c.Levels,
		Epochs: len(c.Orders), BatchSize: c.Batch,
		Models: []train.ModelConfig{{
			LearningRate: c.Rate, WeightDecay: c.Decay,
			Orthonormal: c.Penalty, Target: c.Target, Averaging: c.Averaging,
			GradientPenalty: c.Gradient, Diversity: c.Diversity,
		}},
	}
	if c.Validated {
		held := len(c.HeldX) / p.X.Cols
		p.Validation = &train.Validation{X: matrix(c.HeldX, held), Y: matrix(c.HeldY, held), Levels: c.At}
	}
	if c.Targets > 0 {
		p.Y = matrix(c.Y, rows)
	}
	if c.Shared {
		p.Y = matrix(c.Y, 1)
	}
	return p
}

// TestTrajectory checks losses and weights against PyTorch step by step. It trains the
// model three times: alone, together with a model that has the same seed, and together with
// a model that has a different seed.
func TestTrajectory(t *testing.T) {
	raw, err := os.ReadFile("testdata/trajectory.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []trajectory
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	e := open(t)
	for _, c := range cases {
		for _, companion := range []string{"alone", "of one seed", "of two seeds"} {
			t.Run(c.Name+"/"+companion, func(t *testing.T) {
				p := c.problem()
				if companion != "alone" {
					other := p.Models[0]
					other.LearningRate /= 2
					other.WeightDecay = 0.05
					p.Models = append(p.Models, other)
				}
				if companion == "of two seeds" {
					p.Models[1].Seed = 7
				}
				checkTrajectory(t, e, c, p)
			})
		}
	}
}

func checkTrajectory(t *testing.T, e *Engine, c trajectory, p train.Problem) {
	if err := check(p); err != nil {
		t.Fatal(err)
	}
	pl := newPlan(p)
	r, err := e.runtime(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	var losses []float64
	step, noises, seeds := 0, 0, 1
	if !pl.sharedBatches {
		seeds = 2
	}
	tr, err := newTraining(context.Background(), r, pl, hooks{
		weights: func(model int, params []parameter, flat []float32) {
			layer := 0
			for _, q := range params {
				dst := q.slice(flat, model)
				if q.weight {
					dst = dst[copy(dst, c.Initial[layer].W):]
					layer++
				}
				copy(dst, c.Initial[layer-1].B)
			}
		},
		order:  func(epoch int, perm []int32) { copy(perm, c.Orders[epoch]) },
		levels: func(tau []float32) { copy(tau, c.Taus[step/seeds]); step++ },
		noise: func(rows, noiseFraction []float32, pick []int32) {
			at := c.Noises[noises/seeds]
			copy(rows, at.Rows)
			copy(noiseFraction, at.Mix)
			copy(pick, at.Pick)
			noises++
		},
		losses: func(l []float32) { losses = append(losses, float64(l[0])) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	networks, err := tr.run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(losses) != len(c.Losses) {
		t.Fatalf("%d steps, want %d", len(losses), len(c.Losses))
	}
	for i, want := range c.Losses {
		if math.Abs(losses[i]-want) > c.Tolerance*(math.Abs(want)+1e-2) {
			t.Errorf("loss before step %d is %v, PyTorch has %v", i+1, losses[i], want)
		}
	}
	if n := networks[0]; n.Epoch != c.Epoch || math.Abs(n.Validation-c.Best) > 1e-4*(math.Abs(c.Best)+1e-2) {
		t.Errorf("kept epoch %d with a validation loss of %v, PyTorch %d with %v", n.Epoch, n.Validation, c.Epoch, c.Best)
	}
	for i, l := range networks[0].Layers {
		compare(t, "weight", i, l.W.Data, c.Final[i].W, c.Tolerance)
		compare(t, "bias", i, l.B, c.Final[i].B, c.Tolerance)
	}
}

// compare checks that got and want differ by at most tolerance times the largest element of
// want.
func compare(t *testing.T, what string, layer int, got, want []float32, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s %d has %d elements, want %d", what, layer, len(got), len(want))
	}
	largest := 0.0
	for _, v := range want {
		largest = max(largest, math.Abs(float64(v)))
	}
	for i := range want {
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= tolerance*largest) {
			t.Errorf("%s %d[%d] is %v, want %v", what, layer, i, got[i], want[i])
		}
	}
}
