package baselines

import (
	"cmp"
	"context"
	"math"

	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var corpMethod = ood.Method{
	Name: "corp",
	Doc: "Reconstruction error of kernel PCA with a Gaussian kernel, on features scaled to unit norm. Try it if the training features form curved or separate " +
		"groups, which the linear components of cop miss. The kernel exp(−gamma·‖x−y‖²) is approximated by random Fourier features. As many components are " +
		"used as explain the fraction `variance`. frequencies is the number of random features; 0 means four times the number of features, but at most 2,048.",
	Ref:   "Fang et al. 2024, arXiv:2402.02949, CoRP; Rahimi & Recht 2007",
	Needs: ood.Needs{Features: true},
	Memory: func(t ood.Training, p ood.Params) float64 {
		m := frequencyCount(t, p)
		return eigen.Squares*squareBytes(m) + 8*float64(m)*float64(t.Features.Cols)
	},
	Params: []ood.Param{
		{Name: "gamma", Default: 2, Takes: "positive"}, varianceParam(.8),
		// With 8,192 frequencies, each matrix of the eigenproblem takes 0.5 GB.
		{Name: "frequencies", Default: 0, Takes: "count,least=0,most=8192"},
	},
	Sweep: []ood.Params{
		{"gamma": 2., "variance": .8}, {"gamma": 1., "variance": .7}, {"gamma": 1., "variance": .5}, {"gamma": 3., "variance": .5},
	},
	Fit: fitCoRP,
	New: func() any { return &corp{} },
}

func frequencyCount(t ood.Training, p ood.Params) int {
	// The authors use 2,048 frequencies for 512 features. More would be slow, because the
	// cost of the eigenproblem grows with the cube of their number.
	return cmp.Or(p.Int("frequencies"), min(4*t.Features.Cols, 2048))
}

type corp struct {
	fourier
	principal
}

func fitCoRP(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	gamma, m := p.Float("gamma"), frequencyCount(t, p)
	f := newFourier(t.Features.Cols, m, gamma, t.Seed)
	c, err := fitPrincipal(ctx, t, p, fourierKey{m, gamma, t.Seed}, m, f.transform)
	return &corp{f, c}, err
}

func (s *corp) Score(_ context.Context, dst []float64, b ood.Batch) error {
	s.residualNorms(dst, s.transform(b.Features))
	return nil
}

func (s *corp) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	scale := math.Sqrt(2 / float64(len(s.Phases)))
	return s.residualNormsGraph(b.Features.Unit().MatMul(s.Frequencies).Add(s.Phases).Cos().Mul(scale)), nil
}
