package baselines_test

import (
	"context"
	"math"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

// naiveOutput computes the output of a network for one row from its definition.
func naiveOutput(layers []train.Layer, x []float32) []float64 {
	var in []float64
	for _, v := range x {
		in = append(in, float64(v))
	}
	for i, l := range layers {
		out := make([]float64, l.W.Cols)
		for j := range out {
			if l.B != nil {
				out[j] = float64(l.B[j])
			}
			for k, v := range in {
				if i > 0 {
					v = max(v, 0)
				}
				out[j] += v * float64(l.W.Data[k*l.W.Stride+j])
			}
		}
		in = out
	}
	return in
}

// TestPaperProblems checks the training problems that distillation and svdd give to a
// trainer.
func TestPaperProblems(t *testing.T) {
	training := newToy().training(30)
	var r recordingTrainer
	training.Trainer = &r
	params := ood.Params{"k": 7., "epochs": 3.}
	row := func(m blas32.General, i int) []float32 { return m.Data[i*m.Stride : i*m.Stride+m.Cols] }
	isNear := func(got float32, want float64) bool { return math.Abs(float64(got)-want) < 1e-5 }
	matches := func(p train.Problem, hidden int, noBias bool) bool {
		m := p.Models[0]
		return p.Loss == "mse" && p.Epochs == 3 && p.BatchSize == 64 && p.Outputs == 7 && len(p.Hidden) == hidden &&
			p.NoBias == noBias && len(p.Models) == 1 && m.LearningRate == 1e-3 && m.Target == -1 && m.Seed == training.Seed
	}

	s, err := fitting.Fit(background, method("distillation"), training, params)
	if err != nil {
		t.Fatal(err)
	}
	p := r.problems[0]
	var drawn struct {
		Teacher train.Network `state:"teacher"`
		Student train.Network `state:"student"`
	}
	st := s.State()
	delete(st.Params, "width of features")
	if err := rows.Restore(&drawn, st, nil); err != nil {
		t.Fatal(err)
	}
	teacher := drawn.Teacher
	if len(teacher.Layers) != 2 || teacher.Layers[0].W.Cols != 64 || !matches(p, 0, false) {
		t.Errorf("a teacher of %d layers, and the problem %+v", len(teacher.Layers), p)
	}
	for i := range p.X.Rows {
		for j, want := range naiveOutput(teacher.Layers, row(training.Features, i)) {
			if !isNear(p.Y.Data[i*p.Y.Stride+j], want) {
				t.Fatalf("label %d of row %d is %v, the teacher says %v", j, i, p.Y.Data[i*p.Y.Stride+j], want)
			}
		}
	}

	if _, err := fitting.Fit(background, method("svdd"), training, params); err != nil {
		t.Fatal(err)
	}
	p = r.problems[1]
	if !matches(p, 1, true) || p.Y.Rows != 1 {
		t.Errorf("the problem of SVDD is %+v", p)
	}
	mean := make([]float64, 7)
	for i := range p.X.Rows {
		for j, v := range naiveOutput(p.Models[0].Start, row(training.Features, i)) {
			mean[j] += v / float64(p.X.Rows)
		}
	}
	for j, want := range mean {
		if !isNear(p.Y.Data[j], want) {
			t.Errorf("the centre has %v at %d, the mean of the outputs to start with is %v", p.Y.Data[j], j, want)
		}
	}
}

// recordingTrainer is a Trainer that records the problems it gets and returns untrained
// networks.
type recordingTrainer struct{ problems []train.Problem }

func (r *recordingTrainer) Train(ctx context.Context, p train.Problem) ([]train.Network, error) {
	r.problems = append(r.problems, p)
	return randomTrainer{}.Train(ctx, p)
}
