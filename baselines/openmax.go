package baselines

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach/internal/numeric/moments"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var openMaxMethod = ood.Method{
	Name: "openmax",
	Doc: "Log-odds of the unknown class that OpenMax adds to the softmax, for rows far from the mean logits of their class. Use it for open-set recognition, if " +
		"each class has several times `tail` training rows. For each class, a Weibull distribution is fitted to the `tail` largest Euclidean distances between " +
		"its training logits and their mean. It tells how unusual a row is for each of the `alpha` most probable classes, and that fraction of their logits is " +
		"moved to the unknown class. Training rows belong to their predicted class; rows with another label are left out, as in the paper. For a class without " +
		"rows, every row is unusual.",
	Ref:    "Bendale & Boult 2016, arXiv:1511.06233",
	Needs:  ood.Needs{Logits: true},
	Params: []ood.Param{{Name: "tail", Default: 20, Takes: "count", Sweep: []any{20, 50}}, {Name: "alpha", Default: 10, Takes: "count", Sweep: []any{3, 10}}},
	Fit:    fitOpenMax,
	New:    func() any { return &openMax{} },
}

type openMax struct {
	Means blas64.General `state:"means[logits,logits]"` // mean logits of each class
	Alpha int            `state:"alpha,least=1"`
	// These are the fields of type weibull, for the distances to the mean of each class.
	Largest []float64 `state:"tail_largest[logits]"`
	At      []float64 `state:"tail_at[logits],least=10000"`
	Shape   []float64 `state:"tail_shape[logits],least=0"`
	Ratio   []float64 `state:"tail_ratio[logits]"`
}

func fitOpenMax(_ context.Context, t ood.Training, p ood.Params) (any, error) {
	classes, err := correctClasses(t)
	if err != nil {
		return nil, err
	}
	c := t.Logits.Cols
	s := &openMax{Means: moments.ClassMeans(t.Logits, classes, c, false), Alpha: p.Int("alpha")}
	distances := make([][]float64, c)
	for i, y := range classes {
		if y >= 0 {
			distances[y] = append(distances[y], s.distance(row(t.Logits, i), y))
		}
	}
	for _, d := range distances {
		w := fitWeibull(d, p.Int("tail"))
		s.Largest, s.At = append(s.Largest, w.largest), append(s.At, w.shiftedLargest)
		s.Shape, s.Ratio = append(s.Shape, w.shape), append(s.Ratio, w.ratio)
	}
	return s, nil
}

// distance returns the distance between a row of logits and the mean of class y.
func (s *openMax) distance(z []float32, y int) float64 {
	var square float64
	for k, mean := range s.Means.Data[y*s.Means.Stride : y*s.Means.Stride+len(z)] {
		d := float64(z[k]) - mean
		square += d * d
	}
	return math.Sqrt(square)
}

func (s *openMax) tailOf(y int) weibull {
	return weibull{s.Largest[y], s.At[y], s.Shape[y], s.Ratio[y]}
}

func (s *openMax) Score(_ context.Context, dst []float64, b ood.Batch) error {
	order, revised := make([]int, b.Logits.Cols), make([]float64, b.Logits.Cols)
	for i := range dst {
		dst[i] = s.unknownLogOdds(row(b.Logits, i), order, revised)
	}
	return nil
}

func (s *openMax) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	c := b.Logits.Cols()
	alpha := min(s.Alpha, c)
	sorted, at := b.Logits.Double().Top(c)
	z, at := sorted.Columns(0, alpha), at.Columns(0, alpha)
	means := at.Rows(s.Means).Reshape(-1, int64(alpha), int64(c))
	over := b.Logits.Double().Reshape(-1, 1, int64(c)).Sub(means).Norm().Reshape(-1, int64(alpha)).Sub(at.Lookup(s.Largest)).Div(at.Lookup(s.At))
	shape := at.Lookup(s.Shape)
	log := over.Max(-1.).Log1p()
	unusual := shape.Mul(log).Add(at.Lookup(s.Ratio)).Exp().Neg().Exp().Neg().Add(1.)
	weight := make([]float64, alpha)
	for i := range weight {
		weight[i] = float64(alpha-i) / float64(alpha)
	}
	moved := shape.Neg().Less(0.).Choose(unusual, 1.).Mul(weight).Mul(z)
	revised := z.Sub(moved)
	if alpha < c {
		revised = revised.Concat(sorted.Columns(alpha, c))
	}
	return moved.Sum().Sub(revised.LogSumExp()), nil
}

// unknownLogOdds returns the log-odds of the unknown class. Log-odds keep the order of rows
// for which a probability would round to 0 or 1.
func (s *openMax) unknownLogOdds(z []float32, order []int, revised []float64) float64 {
	for k, v := range z {
		if math.IsNaN(float64(v)) {
			return math.NaN()
		}
		order[k], revised[k] = k, float64(v)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(z[b], z[a]) })
	alpha := min(s.Alpha, len(z))
	var unknown float64
	for i, y := range order[:alpha] {
		weight := float64(alpha-i) / float64(alpha) * s.tailOf(y).probability(s.distance(z, y))
		unknown += revised[y] * weight
		revised[y] *= 1 - weight
	}
	return unknown - floats.LogSumExp(revised)
}
