package baselines

import (
	"context"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/oneclass"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var oneClassSVMMethod = ood.Method{
	Name: "one-class-svm",
	Doc: "Minus the decision function of a one-class support vector machine with a Gaussian kernel. Use it for tables of up to some thousands of rows, because " +
		"the memory of a fit grows with their square. The kernel is exp(−gamma·‖x−y‖²), and the solver is sequential minimal optimisation. nu is an upper " +
		"bound on the fraction of training rows outside the boundary and a lower bound on the fraction of support vectors. gamma=0 means 1/(h·variance) for h " +
		"features. At most `rows` training rows are used; if there are more, they are drawn by the seed.",
	Ref:   "Schölkopf et al. 2001, doi:10.1162/089976601750264965; as scikit-learn's OneClassSVM",
	Needs: ood.Needs{Features: true},
	Memory: func(t ood.Training, p ood.Params) float64 {
		n := min(p.Float("rows"), float64(t.Len()))
		return 4*n*n + 16*n*float64(t.Features.Cols)
	},
	Params: []ood.Param{
		{Name: "nu", Default: .5, Takes: "positive,most=1", Sweep: []any{.01, .05, .1, .5}}, {Name: "gamma", Default: 0, Takes: "least=0"},
		{Name: "tolerance", Default: 1e-3, Takes: "positive"}, {Name: "rows", Default: 10000, Takes: "count"},
	},
	Fit: fitOneClassSVM,
	New: func() any { return &oneClassSVM{} },
}

type oneClassSVM struct {
	Vectors      blas32.General `state:"vectors[n,features]"` // support vectors
	Coefficients []float64      `state:"coefficients[n]"`     // coefficients of the support vectors
	Gamma        float64        `state:"gamma,positive"`
	Rho          float64        `state:"rho"` // the decision function is Σ coefficient·kernel − rho
	kernel       *oneclass.Kernel
}

func fitOneClassSVM(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	s := &oneClassSVM{Gamma: p.Float("gamma")}
	if s.Gamma == 0 {
		s.Gamma = scaleGamma(t.Features)
	}
	used := make([]int, t.Len())
	for i := range used {
		used[i] = i
	}
	if limit := p.Int("rows"); limit < len(used) {
		used = rand.New(rand.NewPCG(t.Seed, 0)).Perm(len(used))[:limit]
		slices.Sort(used)
	}
	alpha, rho, err := oneclass.Solve(ctx, oneclass.NewKernel(rows.Select(t.Features, used), s.Gamma), p.Float("nu"), p.Float("tolerance"), t.Progress)
	if err != nil {
		return nil, err
	}
	var support []int
	for i, a := range alpha {
		if a > 0 {
			support, s.Coefficients = append(support, used[i]), append(s.Coefficients, a)
		}
	}
	s.Vectors, s.Rho = rows.Select(t.Features, support), rho
	return s, s.Restored()
}

func (s *oneClassSVM) Restored() error {
	s.kernel = oneclass.NewKernel(s.Vectors, s.Gamma)
	return nil
}

// scaleGamma returns 1/(h·variance) for the n×h matrix x, where variance is the variance of
// all its elements. It returns 1 if all elements are equal.
func scaleGamma(x blas32.General) float64 {
	var sum, squares float64
	n := float64(x.Rows) * float64(x.Cols)
	for i := range x.Rows {
		for _, v := range row(x, i) {
			sum += float64(v) / n
		}
	}
	for i := range x.Rows {
		for _, v := range row(x, i) {
			squares += (float64(v) - sum) * (float64(v) - sum) / n
		}
	}
	if squares == 0 {
		return 1
	}
	return 1 / (float64(x.Cols) * squares)
}

func (s *oneClassSVM) Score(_ context.Context, dst []float64, b ood.Batch) error {
	s.kernel.Sums(dst, b.Features, s.Coefficients)
	for i, sum := range dst {
		dst[i] = s.Rho - sum
	}
	return nil
}

func (s *oneClassSVM) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	if err := graph.CheckBank(s.Vectors.Rows, s.Vectors.Cols, 8); err != nil {
		return graph.Tensor{}, err
	}
	return s.kernel.SumsGraph(b.Features, s.Coefficients).Neg().Add(s.Rho), nil
}
