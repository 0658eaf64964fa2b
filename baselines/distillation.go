package baselines

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// Distillation is the error of a student of a random network.
var Distillation = ood.Method{
	Name: "distillation",
	Doc: "A random network of 64 hidden ReLU units labels the training features with k values, and a linear student learns " +
		"them by Adam and squared error; the score is the student's mean squared error. Fitting holds the labels, " +
		"rows times k floats, in memory.",
	Ref:   "Burda et al. 2019, as in Tagasovska & Lopez-Paz 2019, table 2",
	Needs: ood.NeedFeatures | ood.NeedTrainer,
	Memory: func(t ood.Training, p ood.Params) float64 {
		k := units(p, "k", 100)
		return k * (trainingBytes*float64(t.Features.Cols) + 4*float64(t.Len()))
	},
	Default: ood.Params{"k": 100., "epochs": 10.},
	Grid:    smallNetworkGrid(),
	Fit:     fitDistillation,
	Restore: func(st heads.State) (ood.Scorer, error) {
		teacher, err := st.Network("teacher")
		if err != nil {
			return nil, err
		}
		student, err := st.Network("student")
		if err != nil {
			return nil, err
		}
		if teacher.In() != student.In() || teacher.Out() != student.Out() {
			return nil, fmt.Errorf("a teacher of %d values from %d does not fit a student of %d from %d",
				teacher.Out(), teacher.In(), student.Out(), student.In())
		}
		return distillation{teacher, student}, nil
	},
}

// streamTeacher keeps the teacher's weights apart from other uses of a seed.
const streamTeacher = 0x7465616368

type distillation struct {
	teacher, student heads.Network
}

func fitDistillation(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
	k, epochs, err := smallNetworkParams(p)
	if err != nil {
		return nil, err
	}
	if err := checkRows(t.Features, "distillation"); err != nil {
		return nil, err
	}
	s := distillation{teacher: drawNetwork(rand.New(rand.NewPCG(t.Seed, streamTeacher)), true, t.Features.Cols, smallHidden, k)}
	y := blas32.General{Rows: t.Features.Rows, Cols: k, Stride: k, Data: make([]float32, t.Features.Rows*k)}
	err = eachOutput(ctx, s.teacher, t.Features, func(first int, _, out blas32.General) {
		copy(y.Data[first*k:], out.Data)
	})
	if err != nil {
		return nil, err
	}
	s.student, err = trainOne(ctx, t, heads.Problem{Y: y, Outputs: k, Loss: heads.MSE, Epochs: epochs}, heads.ModelConfig{})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Score implements ood.Scorer.
func (s distillation) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkWidth(b.Features, s.teacher.In(), "features"); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	err := eachOutput(ctx, s.teacher, b.Features, func(first int, rows, taught blas32.General) {
		learnt := s.student.Apply(rows)
		for i := range rows.Rows {
			dst[first+i] = squaredDistance(row(taught, i), row(learnt, i))
		}
	})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// State implements heads.Stater.
func (s distillation) State() heads.State {
	st := heads.State{Params: map[string]any{}, Arrays: map[string]heads.Array{}}
	st.SetNetwork("teacher", s.teacher)
	st.SetNetwork("student", s.student)
	return st
}
