package baselines

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// CoRP scores with the reconstruction error of kernel PCA under a Gaussian
// kernel of directions.
var CoRP = ood.Method{
	Name: "corp",
	Doc: "The reconstruction error of kernel PCA under the Gaussian kernel exp(−gamma·‖x−y‖²) of features scaled to unit norm, " +
		"approximated by random Fourier features, with as many components as explain the share variance. frequencies is " +
		"the number of random features, and 0 stands for four times that of the features but no more than 2048.",
	Ref:   "Fang et al. 2024, arXiv:2402.02949, CoRP; Rahimi & Recht 2007",
	Needs: ood.NeedFeatures,
	Memory: func(t ood.Training, p ood.Params) float64 {
		m := min(p.Reader().Int("frequencies", 0), limitFrequencies)
		if m == 0 {
			m = min(4*t.Features.Cols, mostFrequencies)
		}
		return eigenSquares*square(m) + 8*float64(m)*float64(t.Features.Cols)
	},
	Default: ood.Params{"gamma": 2., "variance": .8, "frequencies": 0.},
	Grid: []ood.Params{
		{"gamma": 2., "variance": .8}, {"gamma": 1., "variance": .7}, {"gamma": 1., "variance": .5}, {"gamma": 3., "variance": .5},
	},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		r := p.Reader()
		gamma := r.Positive("gamma", 2)
		m := r.Between("frequencies", 0, 0, limitFrequencies)
		variance, err := readVariance(r, .8)
		if err != nil {
			return nil, err
		}
		if err := checkRows(t.Features, "corp"); err != nil {
			return nil, err
		}
		if m == 0 {
			m = min(4*t.Features.Cols, mostFrequencies)
		}
		return one(fitKernelPCA(ctx, t, newFourier(t.Features.Cols, m, gamma, t.Seed), []float64{variance}))
	},
	Restore: func(st heads.State) (ood.Scorer, error) { return restoreKernelPCA(st, true) },
}

// As many as the authors take for 512 features; the eigenproblem grows with
// the cube.
const mostFrequencies = 2048

// limitFrequencies is what one may ask for: half a GB for each matrix of the
// eigenproblem.
const limitFrequencies = 1 << 13

// newFourier draws m random Fourier features of a Gaussian kernel on rows of h.
func newFourier(h, m int, gamma float64, seed uint64) kernelMap {
	r := rand.New(rand.NewPCG(seed, 0))
	k := kernelMap{width: h, frequencies: newMatrix64(h, m), phases: make([]float64, m)}
	for i := range k.frequencies.Data {
		// Box & Muller's normals, unlike NormFloat64's, are the same by
		// definition in any language.
		radius := math.Sqrt(-2 * math.Log(1-r.Float64()))
		k.frequencies.Data[i] = math.Sqrt(2*gamma) * radius * math.Cos(2*math.Pi*r.Float64())
	}
	for j := range k.phases {
		k.phases[j] = 2 * math.Pi * r.Float64()
	}
	return k
}
