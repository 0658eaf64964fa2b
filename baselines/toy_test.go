package baselines_test

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/ood"
)

const (
	toyWidth   = 12
	toyLatent  = 5
	toyClasses = 3
)

// toy makes rows of three classes near a subspace of the features, rows that
// belong to no class and lie off it, and the layer that tells the classes apart.
type toy struct {
	mix   [toyLatent][toyWidth]float64
	means [toyClasses][toyLatent]float64
	last  ood.Linear
	rng   *rand.Rand
}

func newToy() *toy {
	t := &toy{rng: rand.New(rand.NewPCG(11, 13))}
	for i := range t.mix {
		for j := range t.mix[i] {
			t.mix[i][j] = t.rng.NormFloat64() / 2
		}
	}
	t.last = ood.Linear{Weight: zeros(toyClasses, toyWidth), Bias: make([]float32, toyClasses)}
	for c := range t.means {
		t.means[c][c] = 4
		for j := range toyWidth {
			t.last.Weight.Data[c*toyWidth+j] = float32(t.mix[c][j])
		}
	}
	return t
}

func (t *toy) in(n int) ood.Batch {
	return t.batch(n, func(i, d int) float64 { return t.means[i%toyClasses][d] + .5*t.rng.NormFloat64() }, .1)
}

func (t *toy) out(n int) ood.Batch {
	return t.batch(n, func(int, int) float64 { return .5 * t.rng.NormFloat64() }, .8)
}

func (t *toy) batch(n int, latent func(row, dim int) float64, noise float64) ood.Batch {
	b := ood.Batch{Features: zeros(n, toyWidth), Logits: zeros(n, toyClasses), Labels: make([]int, n)}
	for i := range n {
		b.Labels[i] = i % toyClasses
		row := b.Features.Data[i*toyWidth : (i+1)*toyWidth]
		for d := range toyLatent {
			z := latent(i, d)
			for j := range row {
				row[j] += float32(z * t.mix[d][j])
			}
		}
		for j := range row {
			row[j] += float32(noise * t.rng.NormFloat64())
		}
		for c := range toyClasses {
			for j, v := range row {
				b.Logits.Data[i*toyClasses+c] += v * t.last.Weight.Data[c*toyWidth+j]
			}
		}
	}
	b.Layers = toyLayers(b.Features)
	x := make([]float32, len(b.Features.Data))
	for i, v := range b.Features.Data {
		x[i] = float32(unbend(float64(v)))
	}
	b.Inputs = ood.InputsOf([]int{n, 3, 2, 2}, x)
	return b
}

// toyLayers stand for earlier layers: a narrower and a bent view of the features.
func toyLayers(phi blas32.General) []blas32.General {
	sums, bent := zeros(phi.Rows, 7), zeros(phi.Rows, 9)
	for i := range phi.Rows {
		row := phi.Data[i*phi.Stride : i*phi.Stride+phi.Cols]
		for j := range sums.Cols {
			sums.Data[i*sums.Stride+j] = row[j] - row[j+5]
		}
		for j := range bent.Cols {
			bent.Data[i*bent.Stride+j] = float32(math.Tanh(float64(row[j]))) + row[j+3]
		}
	}
	return []blas32.General{sums, bent}
}

// network takes images of three channels to the features, one to one.
func (t *toy) network() ood.Network { return twoLayers{act: bend, slope: bendSlope, last: &t.last} }

func bend(x float64) float64      { return x + math.Sin(x)/2 }
func bendSlope(x float64) float64 { return 1 + math.Cos(x)/2 }

// unbend is the inverse of bend.
func unbend(y float64) float64 {
	low, high := y-1, y+1
	for range 60 {
		if middle := (low + high) / 2; bend(middle) < y {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

func (t *toy) training(n int) ood.Training {
	return ood.Training{
		Batch: t.in(n), Last: &t.last, Trainer: plainTrainer{}, Outliers: t.out(n), Seed: 5,
		Network: t.network(), InputScale: ood.InputScale{Factor: []float32{2, 1, 4}},
	}
}

func zeros(n, h int) blas32.General {
	return blas32.General{Rows: n, Cols: h, Stride: h, Data: make([]float32, n*h)}
}

const rectifiedWidth = 48

// rectified are features as a ReLU leaves them: many, none below zero, and large
// where the class is. Rows that belong to no class have their mass spread out.
func rectified(n int, in bool, rng *rand.Rand, last *ood.Linear) ood.Batch {
	b := ood.Batch{Features: zeros(n, rectifiedWidth), Logits: zeros(n, toyClasses), Labels: make([]int, n)}
	for i := range n {
		b.Labels[i] = i % toyClasses
		row := b.Features.Data[i*rectifiedWidth : (i+1)*rectifiedWidth]
		for j := range row {
			mean := .2
			if in && j%toyClasses == b.Labels[i] {
				mean = 1.2
			}
			row[j] = float32(max(0, mean+.4*rng.NormFloat64()))
		}
		blas32.Gemv(blas.NoTrans, 1, last.Weight, blas32.Vector{N: rectifiedWidth, Inc: 1, Data: row}, 0,
			blas32.Vector{N: toyClasses, Inc: 1, Data: b.Logits.Data[i*toyClasses : (i+1)*toyClasses]})
	}
	return b
}

// rectifiedConformance holds rows for methods that shape activations.
func rectifiedConformance() conformance {
	rng := rand.New(rand.NewPCG(3, 5))
	last := &ood.Linear{Weight: zeros(toyClasses, rectifiedWidth), Bias: make([]float32, toyClasses)}
	for i := range last.Weight.Data {
		last.Weight.Data[i] = -.1
		if i%rectifiedWidth%toyClasses == i/rectifiedWidth {
			last.Weight.Data[i] = .2
		}
	}
	c := conformance{in: rectified(90, true, rng, last), out: rectified(80, false, rng, last)}
	c.training = ood.Training{Batch: rectified(60, true, rng, last), Last: last, Seed: 5}
	return c
}
