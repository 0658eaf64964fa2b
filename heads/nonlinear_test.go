package heads

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/heads/train"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/rows"
)

// naiveNonlinearScore is the score from its definition, in float64.
func naiveNonlinearScore(c *NonlinearCertificates, row []float32) float64 {
	x := make([]float64, len(row))
	scale := 1.0
	if c.UnitNorm {
		scale = rows.InverseNorm(row)
	}
	for j, v := range row {
		x[j] = (float64(v)*scale - float64(c.Mean[j])) / float64(c.Scale)
	}
	for i, l := range c.Network.Layers {
		out := make([]float64, l.Out())
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
		if c.Loss == train.BCE {
			f = 1 / (1 + math.Exp(-f))
		}
		s += f * f / float64(len(x))
	}
	return s
}

func TestNonlinearCertificatesScore(t *testing.T) {
	phi := randomRows(2100, 7, 0.4, 8)
	clear(phi.Data[5*phi.Stride : 5*phi.Stride+7])
	for _, o := range []NonlinearOptions{
		{K: 3}, {Loss: train.BCE, Hidden: []int{5, 4}}, {Loss: train.L1, UnitNorm: true}, {UnitNorm: true, Hidden: []int{}},
	} {
		c, err := FitNonlinearCertificates(context.Background(), phi, &recorder{}, o)
		if err != nil {
			t.Fatal(err)
		}
		got := c.Score(nil, phi)
		for _, i := range []int{0, 5, 1023, 1024, 2099} {
			want := naiveNonlinearScore(c, phi.Data[i*phi.Stride:i*phi.Stride+7])
			if math.Abs(got[i]-want) > 1e-5*(1+want) {
				t.Errorf("%+v: score %d is %v, want %v", o, i, got[i], want)
			}
		}
		restored := &NonlinearCertificates{}
		if err := rows.Restore(restored, rows.Save(c), nil); err != nil {
			t.Fatal(err)
		}
		if again := restored.Score(make([]float64, phi.Rows), phi); !reflect.DeepEqual(again, got) {
			t.Errorf("%+v: restored certificates score otherwise", o)
		}
		if want := max(o.K, 3); o.K > 0 && c.K() != want || o.K == 0 && c.K() != 7 {
			t.Errorf("%+v: %d certificates", o, c.K())
		}
	}
}

func TestNonlinearCertificatesGrid(t *testing.T) {
	phi := randomRows(60, 6, 1, 3)
	grid := []NonlinearOptions{
		{GradientPenalty: 1, Diversity: 2, Seed: 4},
		{Loss: train.BCE, Epochs: 3, BatchSize: 8, LearningRate: .1},
		{GradientPenalty: 3, Seed: 5},
		{UnitNorm: true, K: 2},
	}
	var r recorder
	fitted, err := FitNonlinearCertificatesGrid(context.Background(), phi, &r, grid)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.problems) != 3 || len(fitted) != len(grid) {
		t.Fatalf("%d problems, %d fitted", len(r.problems), len(fitted))
	}
	p := r.problems[0]
	want := []train.ModelConfig{
		{Seed: 4, LearningRate: 1e-3, Target: -1, GradientPenalty: 1, Diversity: 2},
		{Seed: 5, LearningRate: 1e-3, Target: -1, GradientPenalty: 3},
	}
	if !reflect.DeepEqual(p.Models, want) || p.Epochs != 10 || p.BatchSize != 64 || p.Loss != train.MSE || p.Outputs != 6 ||
		!reflect.DeepEqual(p.Hidden, []int{64}) || p.NoBias || p.Y.Rows != 0 {
		t.Errorf("the trainer is asked %+v", p)
	}
	for i, g := range grid {
		if fitted[i].GradientPenalty != g.GradientPenalty || fitted[i].Diversity != g.Diversity || fitted[i].UnitNorm != g.UnitNorm {
			t.Errorf("configuration %d became %+v", i, fitted[i])
		}
	}
	for _, p := range r.problems { // rows have mean 0, and variance 1 on average
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

func TestNonlinearCertificatesRefuse(t *testing.T) {
	phi := randomRows(60, 6, 1, 3)
	for want, o := range map[string]NonlinearOptions{
		"at least one": {K: -1}, `loss "pinball"`: {Loss: train.Pinball}, "weighted with -1": {Diversity: -1}, "weighted with +Inf": {GradientPenalty: math.Inf(1)},
	} {
		if _, err := FitNonlinearCertificates(context.Background(), phi, &recorder{}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	if _, err := FitNonlinearCertificates(context.Background(), phi, nil, NonlinearOptions{}); err == nil || !strings.Contains(err.Error(), "no trainer") {
		t.Errorf("without a trainer: %v", err)
	}
	same := blas32.General{Rows: 4, Cols: 2, Stride: 2, Data: []float32{.1, .7, .1, .7, .1, .7, .1, .7}}
	if _, err := FitNonlinearCertificates(context.Background(), same, &recorder{}, NonlinearOptions{}); err == nil || !strings.Contains(err.Error(), "all rows are equal") {
		t.Errorf("equal rows: %v", err)
	}
	var few *rows.TooFewRowsError
	if _, err := FitNonlinearCertificates(context.Background(), rows.Slice(phi, 0, 1), &recorder{}, NonlinearOptions{}); !errors.As(err, &few) {
		t.Errorf("one row: %v", err)
	}
	c, err := FitNonlinearCertificates(context.Background(), phi, &recorder{}, NonlinearOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := rows.Save(c)
	s.Arrays["mean"] = rows.Array{Shape: []int{5}, Data: make([]float32, 5)}
	if err := rows.Restore(&NonlinearCertificates{}, s, nil); err == nil || !strings.Contains(err.Error(), "a network of 6 inputs for 5 features") {
		t.Errorf("restored with a mean of another width: %v", err)
	}
}
