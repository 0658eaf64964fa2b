package baselines

import (
	"cmp"
	"context"
	"math"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/moments"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var coreMethod = ood.Method{
	Name: "core",
	Doc: "Minus the sum of the energy log Σ exp(logits) and a cosine between the features and their class mean, both standardised on the training rows. Try it " +
		"for a classifier if you want both terms and no parameter to choose. The class mean is that of the training features of the predicted class, and the " +
		"part along this class's weights is removed from both vectors. Classes of the training rows are the labels if there are any, otherwise the largest " +
		"logit. A class without rows has a cosine of 0.",
	Ref:   "Yang, Kim & Bahk 2026, arXiv:2603.18290",
	Needs: ood.Needs{Features: true, Logits: true, Weights: true},
	Fit:   fitCORE,
	New:   func() any { return &core{} },
}

type core struct {
	Directions blas64.General `state:"directions[logits,features]"` // weights of each class, scaled to norm 1
	Residuals  blas64.General `state:"residuals[logits,features]"`  // class means, made orthogonal to Directions and scaled to norm 1
	LogSum     standardScore  `state:"log_sum"`
	Cosine     standardScore  `state:"cosine"`
}

// standardScore standardises numbers: it subtracts a mean and divides by a standard
// deviation.
type standardScore struct {
	Mean float64 `state:"mean"`
	Std  float64 `state:"std,positive"`
}

func newStandard(x []float64) standardScore {
	mean, std := stat.PopMeanStdDev(x, nil)
	return standardScore{mean, cmp.Or(std, 1)}
}

func (s standardScore) apply(v float64) float64 { return (v - s.Mean) / s.Std }

func fitCORE(ctx context.Context, t ood.Training, _ ood.Params) (any, error) {
	classes := t.Labels
	if classes == nil {
		classes = rows.Argmax(t.Logits)
	}
	c := t.Logits.Cols
	s := &core{Directions: dense.New(c, t.Features.Cols), Residuals: moments.ClassMeans(t.Features, classes, c, false)}
	for y := range c {
		direction, residual := dense.Row(s.Directions, y), dense.Row(s.Residuals, y)
		for j, v := range row(t.Last.Weight, y) {
			direction[j] = float64(v)
		}
		normalise(direction)
		along := blas64.Dot(dense.Vector(direction), dense.Vector(residual))
		blas64.Axpy(-along, dense.Vector(direction), dense.Vector(residual))
		normalise(residual)
	}
	sums, cosines := make([]float64, t.Len()), make([]float64, t.Len())
	for i := range sums {
		sums[i], cosines[i] = s.terms(row(t.Features, i), row(t.Logits, i))
	}
	s.LogSum, s.Cosine = newStandard(sums), newStandard(cosines)
	return s, ctx.Err()
}

// normalise scales x to norm 1, unless x is 0.
func normalise(x []float64) {
	if norm := blas64.Nrm2(dense.Vector(x)); norm != 0 {
		blas64.Scal(1/norm, dense.Vector(x))
	}
}

// terms returns log Σ exp(z) and the cosine of a row with features phi and logits z.
func (s *core) terms(phi, z []float32) (logSum, cosine float64) {
	p := softmax.New(z, 1)
	direction, residual := dense.Row(s.Directions, p.Top), dense.Row(s.Residuals, p.Top)
	// The cosine is between residual and the part of phi that is orthogonal to direction.
	// Because residual is orthogonal to direction too, dot is also the product with this
	// part.
	var along, dot, square float64
	for j, v := range phi {
		along += float64(v) * direction[j]
		dot += float64(v) * residual[j]
		square += float64(v) * float64(v)
	}
	return p.LogSum(), dot / math.Sqrt(max(square-along*along, math.SmallestNonzeroFloat32))
}

func (s *core) Score(_ context.Context, dst []float64, b ood.Batch) error {
	for i := range dst {
		logSum, cosine := s.terms(row(b.Features, i), row(b.Logits, i))
		dst[i] = -s.LogSum.apply(logSum) - s.Cosine.apply(cosine)
	}
	return nil
}

func (s *core) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	x, class := b.Features.Double(), b.Logits.ArgMax()
	along, dot := x.Mul(class.Rows(s.Directions)).Sum(), x.Mul(class.Rows(s.Residuals)).Sum()
	cosine := dot.Div(x.Square().Sum().Sub(along.Square()).Max(math.SmallestNonzeroFloat32).Sqrt())
	standardised := func(v graph.Tensor, by standardScore) graph.Tensor { return v.Sub(by.Mean).Div(by.Std) }
	return standardised(b.Logits.Double().LogSumExp(), s.LogSum).Add(standardised(cosine, s.Cosine)).Neg(), nil
}
