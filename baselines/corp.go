package baselines

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/dense"
	"github.com/attach-uncertainty/attach/internal/eigen"
	"github.com/attach-uncertainty/attach/internal/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var corpMethod = ood.Method{
	Name: "corp",
	Doc: "The reconstruction error of kernel PCA under the Gaussian kernel exp(−gamma·‖x−y‖²) of features scaled to unit norm, " +
		"approximated by random Fourier features, with as many components as explain the share variance. frequencies is " +
		"the number of random features, and 0 stands for four times that of the features but no more than 2048.",
	Ref:   "Fang et al. 2024, arXiv:2402.02949, CoRP; Rahimi & Recht 2007",
	Needs: ood.Needs{Features: true},
	Memory: func(t ood.Training, p ood.Params) float64 {
		m := p.Int("frequencies")
		if m == 0 {
			m = min(4*t.Features.Cols, mostFrequencies)
		}
		return eigen.Squares*square(m) + 8*float64(m)*float64(t.Features.Cols)
	},
	Params: []ood.Param{
		{Name: "gamma", Default: 2, Takes: "positive"}, explained(.8),
		// One may ask for half a GB for each matrix of the eigenproblem.
		{Name: "frequencies", Default: 0, Takes: "count,least=0,most=8192"},
	},
	Sweep: []ood.Params{
		{"gamma": 2., "variance": .8}, {"gamma": 1., "variance": .7}, {"gamma": 1., "variance": .5}, {"gamma": 3., "variance": .5},
	},
	Fit: fitCoRP,
	New: func() any { return &corp{} },
}

// As many as the authors take for 512 features; the eigenproblem grows with
// the cube.
const mostFrequencies = 2048

type corp struct {
	fourier
	principal
}

func fitCoRP(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	gamma, m := p.Float("gamma"), p.Int("frequencies")
	if m == 0 {
		m = min(4*t.Features.Cols, mostFrequencies)
	}
	f := newFourier(t.Features.Cols, m, gamma, t.Seed)
	c, err := fitPrincipal(ctx, t, p, fourierKey{m, gamma, t.Seed}, m, f.of)
	return &corp{f, c}, err
}

// fourier are random Fourier features of a Gaussian kernel.
type fourier struct {
	Frequencies blas64.General `state:"frequencies[features,m]"`
	Phases      []float64      `state:"phases[m]"`
}

type fourierKey struct {
	m     int
	gamma float64
	seed  uint64
}

// newFourier draws m random Fourier features of a Gaussian kernel on rows of h.
func newFourier(h, m int, gamma float64, seed uint64) fourier {
	r := rand.New(rand.NewPCG(seed, 0))
	f := fourier{dense.New(h, m), make([]float64, m)}
	for i := range f.Frequencies.Data {
		f.Frequencies.Data[i] = math.Sqrt(2*gamma) * normal(r)
	}
	for j := range f.Phases {
		f.Phases[j] = 2 * math.Pi * r.Float64()
	}
	return f
}

// normal is one of Box & Muller's, which unlike NormFloat64's are the same by
// definition in any language.
func normal(r *rand.Rand) float64 {
	radius := math.Sqrt(-2 * math.Log(1-r.Float64()))
	return radius * math.Cos(2*math.Pi*r.Float64())
}

// of are the Fourier features of the directions of rows.
func (f fourier) of(x blas32.General) blas64.General {
	m := len(f.Phases)
	y, scale := dense.New(x.Rows, m), math.Sqrt(2/float64(m))
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, directions(x), f.Frequencies, 0, y)
	for i := range y.Data {
		y.Data[i] = scale * math.Cos(y.Data[i]+f.Phases[i%m])
	}
	return y
}

// Score implements ood.Detector.
func (s *corp) Score(_ context.Context, dst []float64, b ood.Batch) error {
	s.left(dst, s.of(b.Features))
	return nil
}

// ScoreGraph implements graph.Detector.
func (s *corp) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	scale := math.Sqrt(2 / float64(len(s.Phases)))
	return s.leftGraph(b.Features.Unit().MatMul(s.Frequencies).Add(s.Phases).Cos().Mul(scale)), nil
}
