package heads

import (
	"context"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/headstest"
	"github.com/attach-uncertainty/attach/ood"
)

// naiveNonlinearScore computes the score of a row from its definition, in float64.
func naiveNonlinearScore(c *nonlinear, row []float32) float64 {
	x := make([]float64, len(row))
	scale := 1.0
	if c.UnitNorm {
		scale = rows.InverseNorm(row)
	}
	for j, v := range row {
		x[j] = (float64(v)*scale - float64(c.Mean[j])) / float64(c.Scale)
	}
	for i, l := range c.Network.Layers {
		out := make([]float64, l.W.Cols)
		for j := range out {
			out[j] = float64(l.B[j])
			for k, v := range x {
				if i > 0 {
					v = math.Max(v, 0)
				}
				out[j] += v * float64(l.W.Data[k*l.W.Stride+j])
			}
		}
		x = out
	}
	var s float64
	for _, f := range x {
		if c.Loss == "bce" {
			f = 1 / (1 + math.Exp(-f))
		}
		s += f * f / float64(len(x))
	}
	return s
}

func TestNonlinearCertificatesScore(t *testing.T) {
	phi := headstest.Rows(2100, 7, 0.4, 8)
	clear(phi.Data[5*phi.Stride : 5*phi.Stride+7])
	for _, p := range []ood.Params{
		{"k": 3., "unit_norm": false}, {"loss": "bce", "hidden": 5.}, {"loss": "l1"}, {},
	} {
		s := fitTo(t, certificatesNonlinearMethod, phi, p)
		c := s.Fitted().(*nonlinear)
		got, err := s.Score(context.Background(), nil, ood.Batch{Features: phi})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{0, 5, 1023, 1024, 2099} {
			want := naiveNonlinearScore(c, phi.Data[i*phi.Stride:i*phi.Stride+7])
			if math.Abs(got[i]-want) > 1e-5*(1+want) {
				t.Errorf("%v: score %d is %v, want %v", p, i, got[i], want)
			}
		}
		if _, k := c.Network.Widths(); p["k"] == nil && k != 7 {
			t.Errorf("%v: %d certificates", p, k)
		}
	}
}

func TestNonlinearCertificatesProblems(t *testing.T) {
	phi := headstest.Rows(60, 6, 1, 3)
	grid := []ood.Params{
		{"gradient_penalty": 1., "diversity": 2., "unit_norm": false},
		{"loss": "bce", "epochs": 3.},
		{"gradient_penalty": 3., "diversity": 0., "unit_norm": false},
		{"k": 2.},
	}
	var r headstest.Recorder
	training := ood.Training{Batch: ood.Batch{Features: phi}, Trainer: &r, Seed: 4}
	if _, err := fitting.FitGrid(context.Background(), certificatesNonlinearMethod, training, grid); err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) != 3 {
		t.Fatalf("%d runs, want 3", len(r.Problems))
	}
	p := r.Problems[0]
	want := []train.ModelConfig{
		{Seed: 4, LearningRate: 1e-3, Target: -1, GradientPenalty: 1, Diversity: 2},
		{Seed: 4, LearningRate: 1e-3, Target: -1, GradientPenalty: 3},
	}
	if !reflect.DeepEqual(p.Models, want) || p.Epochs != 10 || p.BatchSize != 64 || p.Loss != "mse" || p.Outputs != 6 ||
		!reflect.DeepEqual(p.Hidden, []int{64}) || p.NoBias || p.Y.Rows != 0 {
		t.Errorf("the trainer is asked %+v", p)
	}
	for _, p := range r.Problems { // prepared features must have mean 0, and variance 1 on average
		var total float64
		for j := range p.X.Cols {
			var sum, squares float64
			for i := range p.X.Rows {
				v := float64(p.X.Data[i*p.X.Stride+j])
				sum += v / float64(p.X.Rows)
				squares += v * v / float64(p.X.Rows)
			}
			if math.Abs(sum) > 1e-5 {
				t.Errorf("column %d has mean %v", j, sum)
			}
			total += squares / float64(p.X.Cols)
		}
		if math.Abs(total-1) > 1e-4 {
			t.Errorf("features have variance %v on average", total)
		}
	}
}

func TestNonlinearRestoreWidth(t *testing.T) {
	s := rows.Save(fitTo(t, certificatesNonlinearMethod, headstest.Rows(60, 6, 1, 3), nil).Fitted())
	s.Arrays["mean"] = rows.Array{Shape: []int{5}, Data: make([]float32, 5)}
	if err := rows.Restore(&nonlinear{}, s, nil); err == nil || !strings.Contains(err.Error(), "the network has 6 inputs, but there are 5 features") {
		t.Errorf("restored with a mean of another width: %v", err)
	}
}
