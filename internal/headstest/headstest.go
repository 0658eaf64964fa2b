// Package headstest holds helpers for tests of the heads (the detector and the interval
// model) and of the packages below them.
package headstest

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Rows draws n correlated rows of h columns whose mean has the given offset. The stride of
// the matrix is larger than h, so that tests notice code that ignores the stride.
func Rows(n, h int, offset float64, seed uint64) blas32.General {
	rng := rand.New(rand.NewPCG(seed, 9))
	m := blas32.General{Rows: n, Cols: h, Stride: h + 3, Data: make([]float32, n*(h+3))}
	for i := range m.Data {
		m.Data[i] = 1e9 // padding between rows, which must not be read
	}
	for i := range n {
		common := rng.NormFloat64()
		for j := range h {
			m.Data[i*m.Stride+j] = float32(offset + common*0.5 + rng.NormFloat64()*(1+float64(j))/float64(h))
		}
	}
	return m
}

// Moments computes the mean, the second moment and the covariance of the rows in float64,
// straight from their definitions. If unit is set, it scales each row to unit norm first.
func Moments(phi blas32.General, unit bool) (mean []float64, second, cov *mat.SymDense) {
	n, h := phi.Rows, phi.Cols
	x := mat.NewDense(n, h, nil)
	for i := range n {
		var norm float64
		for j := range h {
			v := float64(phi.Data[i*phi.Stride+j])
			x.Set(i, j, v)
			norm += v * v
		}
		if unit && norm > 0 {
			for j := range h {
				x.Set(i, j, x.At(i, j)/math.Sqrt(norm))
			}
		}
	}
	mean = make([]float64, h)
	for j := range h {
		mean[j] = mat.Sum(x.ColView(j)) / float64(n)
	}
	second = mat.NewSymDense(h, nil)
	second.SymOuterK(1/float64(n), x.T())
	for i := range n {
		for j := range h {
			x.Set(i, j, x.At(i, j)-mean[j])
		}
	}
	cov = mat.NewSymDense(h, nil)
	cov.SymOuterK(1/float64(n), x.T())
	return mean, second, cov
}

// Recorder is a train.Trainer that records problems and returns small random weights.
type Recorder struct{ Problems []train.Problem }

// Train implements train.Trainer.
func (r *Recorder) Train(ctx context.Context, p train.Problem) ([]train.Network, error) {
	r.Problems = append(r.Problems, p)
	rows.Progress(p.Progress).Tell(1)
	nets := make([]train.Network, len(p.Models))
	for m, cfg := range p.Models {
		rng := rand.New(rand.NewPCG(cfg.Seed, 1))
		in := p.X.Cols
		if p.Conditional {
			in++
		}
		for _, out := range append(append([]int{}, p.Hidden...), p.Outputs) {
			l := train.Layer{W: rows.New(in, out)}
			for i := range l.W.Data {
				l.W.Data[i] = float32(rng.NormFloat64() * 0.5)
			}
			if !p.NoBias {
				l.B = make([]float32, out)
				for i := range l.B {
					l.B[i] = float32(rng.NormFloat64() * 0.5)
				}
			}
			nets[m].Layers = append(nets[m].Layers, l)
			in = out
		}
	}
	return nets, ctx.Err()
}
