package baselines_test

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
)

// linearTrainer is a heads.Trainer for what certificates ask of one: linear
// networks with no bias and targets of zero, by Adam on all rows at once.
type linearTrainer struct{}

func (linearTrainer) Train(ctx context.Context, p heads.Problem) ([]heads.Network, error) {
	networks := make([]heads.Network, len(p.Models))
	for i, m := range p.Models {
		w, err := trainLinear(ctx, p, m)
		if err != nil {
			return nil, err
		}
		networks[i].Layers = []heads.Layer{{W: w}}
		if p.Progress != nil {
			p.Progress(i+1, len(p.Models))
		}
	}
	return networks, nil
}

func trainLinear(ctx context.Context, p heads.Problem, m heads.ModelConfig) (blas32.General, error) {
	h, k := p.X.Cols, p.Outputs
	r := rand.New(rand.NewPCG(m.Seed, 1))
	w := make([]float64, h*k)
	for i := range w {
		w[i] = (2*r.Float64() - 1) / math.Sqrt(float64(h))
	}
	first, second := make([]float64, h*k), make([]float64, h*k)
	for step := 1; step <= 10*p.Epochs; step++ {
		if err := ctx.Err(); err != nil {
			return blas32.General{}, err
		}
		for i, g := range gradient(p, m, w) {
			first[i] += .1 * (g - first[i])
			second[i] += .001 * (g*g - second[i])
			a := first[i] / (1 - math.Pow(.9, float64(step)))
			b := second[i] / (1 - math.Pow(.999, float64(step)))
			w[i] -= 10 * m.LearningRate * a / (math.Sqrt(b) + 1e-8)
		}
	}
	out := blas32.General{Rows: h, Cols: k, Stride: k, Data: make([]float32, h*k)}
	for i, v := range w {
		out.Data[i] = float32(v)
	}
	return out, nil
}

func gradient(p heads.Problem, m heads.ModelConfig, w []float64) []float64 {
	h, k := p.X.Cols, p.Outputs
	g := make([]float64, h*k)
	for i := range p.X.Rows {
		x := p.X.Data[i*p.X.Stride:]
		for j := range k {
			var f float64
			for d := range h {
				f += float64(x[d]) * w[d*k+j]
			}
			var slope float64
			switch p.Loss {
			case heads.BCE:
				slope = 1 / (1 + math.Exp(-f))
			case heads.MSE:
				slope = 2 * f
			case heads.L1:
				slope = math.Copysign(1, f)
			case heads.Pinball:
				slope = 1 - p.Levels[j]
				if f < 0 {
					slope = -p.Levels[j]
				}
			}
			for d := range h {
				g[d*k+j] += slope * float64(x[d]) / float64(p.X.Rows*k)
			}
		}
	}
	for a := range k {
		for b := range k {
			var dot float64
			for d := range h {
				dot += w[d*k+a] * w[d*k+b]
			}
			if a == b {
				dot--
			}
			for d := range h {
				g[d*k+a] += m.Orthonormal * 4 * dot * w[d*k+b] / float64(k*k)
			}
		}
	}
	return g
}
