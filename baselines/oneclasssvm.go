package baselines

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// OneClassSVM scores with how far outside a row is of a boundary drawn around
// the training rows.
var OneClassSVM = ood.Method{
	Name: "one-class-svm",
	Doc: "Minus the decision function of a one-class support vector machine with the kernel exp(−gamma·‖x−y‖²), solved by " +
		"sequential minimal optimisation. nu bounds the share of training rows outside of the boundary from above and that of support " +
		"vectors from below; gamma=0 stands for 1/(h·variance) of the h training features. At most rows training rows are used, drawn by the seed where there are more.",
	Ref:     "Schölkopf et al. 2001, doi:10.1162/089976601750264965; as scikit-learn's OneClassSVM",
	Needs:   ood.NeedFeatures,
	Default: ood.Params{"nu": .5, "gamma": 0., "tolerance": 1e-3, "rows": 10000.},
	Grid:    []ood.Params{{"nu": .01}, {"nu": .05}, {"nu": .1}, {"nu": .5}},
	Fit:     fitOneClassSVM,
	Restore: restoreOneClassSVM,
}

type oneClassSVM struct {
	gaussianRows                // the support vectors
	coefficients []float64      // of each
	rho          float64        // the decision function is Σ coefficient·kernel − rho
	vectors      blas32.General // the support vectors as they were
}

func fitOneClassSVM(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
	r := p.Reader()
	nu := r.Positive("nu", .5)
	gamma := r.NonNegative("gamma", 0)
	tolerance := r.Positive("tolerance", 1e-3)
	most := r.Count("rows", 10000)
	if err := r.Err(); err != nil {
		return nil, err
	}
	if nu > 1 {
		return nil, fmt.Errorf("parameter %q must be in (0,1], not %v", "nu", nu)
	}
	if err := checkRows(t.Features, "one-class-svm"); err != nil {
		return nil, err
	}
	if gamma == 0 {
		gamma = scaleGamma(t.Features)
	}
	used := make([]int, t.Features.Rows)
	for i := range used {
		used[i] = i
	}
	if most < len(used) {
		used = rand.New(rand.NewPCG(t.Seed, 0)).Perm(len(used))[:most]
		slices.Sort(used)
	}
	x := pickRows(t.Features, used)
	kernel := newGaussianRows(x, gamma)
	alpha, rho, err := solveOneClass(ctx, kernel, nu, tolerance, t.Progress)
	if err != nil {
		return nil, err
	}
	var support []int
	var coefficients []float64
	for i, a := range alpha {
		if a > 0 {
			support, coefficients = append(support, i), append(coefficients, a)
		}
	}
	vectors := pickRows(x, support)
	return oneClassSVM{newGaussianRows(vectors, gamma), coefficients, rho, vectors}, nil
}

// scaleGamma is 1/(h·variance), the variance being that of all entries
// together, and 1 if they are equal.
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

func pickRows(x blas32.General, rows []int) blas32.General {
	p := blas32.General{Rows: len(rows), Cols: x.Cols, Stride: x.Cols, Data: make([]float32, 0, len(rows)*x.Cols)}
	for _, i := range rows {
		p.Data = append(p.Data, row(x, i)...)
	}
	return p
}

// gaussianRows are rows that a Gaussian kernel is evaluated with.
type gaussianRows struct {
	gamma   float64
	mean    []float64
	rows    blas64.General // less mean, n×h
	squares []float64      // their squared norms
}

func newGaussianRows(x blas32.General, gamma float64) gaussianRows {
	g := gaussianRows{gamma: gamma, mean: columnMeans(x), squares: make([]float64, x.Rows)}
	g.rows = widened(x, 0, x.Rows, g.mean, make([]float64, x.Rows*x.Cols))
	for i := range g.squares {
		g.squares[i] = squaredNorm(g.rows.Data[i*x.Cols : (i+1)*x.Cols])
	}
	return g
}

// kernel is the kernel of row i and one that has the given product with it and
// the given squared norm.
func (g gaussianRows) kernel(i int, product, square float64) float64 {
	// A NaN stays one.
	d := g.squares[i] + square - 2*product
	if d < 0 {
		d = 0
	}
	return math.Exp(-g.gamma * d)
}

// Score implements ood.Scorer.
func (s oneClassSVM) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	h, n := s.rows.Cols, s.rows.Rows
	if err := checkWidth(b.Features, h, "features"); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	const block = 128
	buf := make([]float64, min(block, len(dst))*h)
	products := newMatrix64(min(block, len(dst)), n)
	for first := 0; first < len(dst); first += block {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		x := widened(b.Features, first, min(first+block, len(dst)), s.mean, buf)
		products.Rows = x.Rows
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, x, s.rows, 0, products)
		for r := range x.Rows {
			square := squaredNorm(x.Data[r*h : (r+1)*h])
			score := s.rho
			for i, c := range s.coefficients {
				score -= c * s.kernel(i, products.Data[r*n+i], square)
			}
			dst[first+r] = score
		}
	}
	return dst, ctx.Err()
}

// State implements heads.Stater.
func (s oneClassSVM) State() heads.State {
	return heads.State{
		Params: map[string]any{"gamma": s.gamma, "rho": s.rho},
		Arrays: map[string]heads.Array{"vectors": heads.ArrayOf(s.vectors), "coefficients": heads.Vector(s.coefficients)},
	}
}

func restoreOneClassSVM(st heads.State) (ood.Scorer, error) {
	var s oneClassSVM
	gamma, err := positive(st, "gamma")
	if err != nil {
		return nil, err
	}
	if s.rho, err = st.Number("rho"); err != nil {
		return nil, err
	}
	if s.vectors, err = st.General("vectors"); err != nil {
		return nil, err
	}
	if err := checkRows(s.vectors, "support vectors"); err != nil {
		return nil, err
	}
	if s.coefficients, err = st.Float64s("coefficients"); err != nil {
		return nil, err
	}
	if len(s.coefficients) != s.vectors.Rows {
		return nil, fmt.Errorf("%d coefficients of %d support vectors", len(s.coefficients), s.vectors.Rows)
	}
	s.gaussianRows = newGaussianRows(s.vectors, gamma)
	return s, nil
}
