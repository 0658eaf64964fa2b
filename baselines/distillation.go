package baselines

import (
	"context"
	"fmt"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var distillationMethod = ood.Method{
	Name: "distillation",
	Doc: "Mean squared error of a linear student that has learned to imitate a random network on the training rows. Use it to compare with random network " +
		"distillation. The teacher, a random network with 64 hidden ReLU units, labels the training features with k values; the student learns them by Adam " +
		"and squared error. During the fit, the labels (rows times k floats) are in memory.",
	Ref:   "Burda et al. 2019, as in Tagasovska & Lopez-Paz 2019, table 2",
	Needs: ood.Needs{Features: true, Trainer: true},
	Memory: func(t ood.Training, p ood.Params) float64 {
		return p.Float("k") * (mlp.Bytes*float64(t.Features.Cols) + 4*float64(t.Len()))
	},
	Params: smallNetworkParams(),
	Fit:    fitDistillation,
	New:    func() any { return &distillation{} },
}

type distillation struct {
	Teacher train.Network `state:"teacher"`
	Student train.Network `state:"student"`
}

func (s *distillation) Restored() error {
	in, out := s.Teacher.Widths()
	if h, k := s.Student.Widths(); in != h || out != k {
		return fmt.Errorf("a teacher with %d outputs and %d inputs does not fit a student with %d outputs and %d inputs", out, in, k, h)
	}
	return nil
}

func fitDistillation(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	s, k := &distillation{}, p.Int("k")
	s.Teacher = drawNetwork(t.Seed, streamTeacher, true, t.Features.Cols, smallHidden, k)
	y := rows.New(t.Features.Rows, k)
	for first, x := range blocks(ctx, t.Features) {
		copy(y.Data[first*k:], s.Teacher.Apply(x).Data)
	}
	var err error
	s.Student, err = trainOne(ctx, t, train.Problem{Y: y, Outputs: k, Loss: "mse", Epochs: p.Int("epochs")}, train.ModelConfig{})
	return s, err
}

func (s *distillation) Score(_ context.Context, dst []float64, b ood.Batch) error {
	teacherOutput, studentOutput := s.Teacher.Apply(b.Features), s.Student.Apply(b.Features)
	for i := range dst {
		dst[i] = rows.SquaredDistance(row(teacherOutput, i), row(studentOutput, i)) / float64(teacherOutput.Cols)
	}
	return nil
}

func (s *distillation) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	teacherOutput, studentOutput := mlp.Graph(s.Teacher.Layers, b.Features), mlp.Graph(s.Student.Layers, b.Features)
	return teacherOutput.Double().Sub(studentOutput.Double()).Square().Mean(), nil
}
