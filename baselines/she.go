package baselines

import (
	"context"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/moments"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var sheMethod = ood.Method{
	Name: "she",
	Doc: "Simplified Hopfield energy: minus the inner product of the features with the mean of the training features of the predicted class. Try it if scores " +
		"must be fast and the file small: it stores one mean for each class. This mean is the pattern of the class. Rows with another label are left out of " +
		"the patterns, as in the paper. A class without rows has a pattern of zeros.",
	Ref:   "Zhang et al. 2023, ICLR, OpenReview KkazG4lgKL",
	Needs: ood.Needs{Features: true, Logits: true},
	Fit: func(_ context.Context, t ood.Training, _ ood.Params) (any, error) {
		classes, err := correctClasses(t)
		if err != nil {
			return nil, err
		}
		return &she{moments.ClassMeans(t.Features, classes, t.Logits.Cols, false)}, nil
	},
	New: func() any { return &she{} },
}

type she struct {
	Patterns blas64.General `state:"patterns[logits,features]"`
}

func (s *she) Score(_ context.Context, dst []float64, b ood.Batch) error {
	for i, y := range rows.Argmax(b.Logits) {
		pattern := dense.Row(s.Patterns, y)
		dst[i] = 0
		for j, v := range row(b.Features, i) {
			dst[i] -= float64(v) * pattern[j]
		}
	}
	return nil
}

func (s *she) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	return b.Features.Double().Mul(b.Logits.ArgMax().Rows(s.Patterns)).Sum().Neg(), nil
}
