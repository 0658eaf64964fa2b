package baselines_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/fit"
	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/ood"
)

const (
	toyWidth   = 24
	toyClasses = 3
)

// toy generates rows of three classes that resemble ReLU features. In-distribution rows are
// close to the mean of their class, and OOD rows are spread everywhere. The last layer
// separates the classes.
type toy struct {
	last ood.Linear
	rng  *rand.Rand
}

func newToy() *toy {
	t := &toy{ood.Linear{Weight: zeros(toyClasses, toyWidth), Bias: make([]float32, toyClasses)}, rand.New(rand.NewPCG(11, 13))}
	for i := range t.last.Weight.Data {
		t.last.Weight.Data[i] = -.1
		if i%toyWidth%toyClasses == i/toyWidth {
			t.last.Weight.Data[i] = .3
		}
	}
	return t
}

func (t *toy) in(n int) ood.Batch {
	return t.batch(n, func(row, col int) float64 {
		mean := .3
		if col%toyClasses == row%toyClasses {
			mean = 1.8
		}
		return mean + .2*t.rng.NormFloat64()
	})
}

func (t *toy) out(n int) ood.Batch {
	return t.batch(n, func(int, int) float64 { return .3 + .8*t.rng.NormFloat64() })
}

func (t *toy) batch(n int, feature func(row, col int) float64) ood.Batch {
	b := ood.Batch{Features: zeros(n, toyWidth), Labels: make([]int, n)}
	x := make([]float32, n*toyWidth)
	for i := range x {
		v := max(0, feature(i/toyWidth, i%toyWidth))
		b.Features.Data[i], x[i] = float32(v), float32(inverseWave(v))
	}
	for i := range n {
		b.Labels[i] = i % toyClasses
	}
	b.Logits, b.Layers, b.Inputs = rows.Linear(b.Features, t.last.Weight, t.last.Bias), toyLayers(b.Features), ood.BlockOf([]int{n, 3, 2, toyWidth / 6}, x)
	return b
}

// toyLayers returns two substitutes for earlier layers: differences of features, and a
// non-linear function of features.
func toyLayers(phi blas32.General) []blas32.General {
	differences, bent := zeros(phi.Rows, 7), zeros(phi.Rows, 9)
	for i := range phi.Rows {
		row := phi.Data[i*phi.Stride : i*phi.Stride+phi.Cols]
		for j := range differences.Cols {
			differences.Data[i*differences.Stride+j] = row[j] - row[j+5]
		}
		for j := range bent.Cols {
			bent.Data[i*bent.Stride+j] = float32(math.Tanh(float64(row[j]))) + row[j+3]
		}
	}
	return []blas32.General{differences, bent}
}

// targets returns two targets for rows x. The second target is −10 times the first.
func (t *toy) targets(x blas32.General) blas32.General {
	y := zeros(x.Rows, 2)
	for i := range x.Rows {
		row := x.Data[i*x.Stride : i*x.Stride+x.Cols]
		v := row[0] - 2*row[1] + float32(.2*t.rng.NormFloat64())
		y.Data[2*i], y.Data[2*i+1] = v, -10*v
	}
	return y
}

// network returns a network that maps images of three channels one-to-one to the features.
func (t *toy) network() ood.Network {
	return twoLayers{activation: wave, slope: waveSlope, last: &t.last}
}

func wave(x float64) float64      { return x + math.Sin(x)/2 }
func waveSlope(x float64) float64 { return 1 + math.Cos(x)/2 }

// inverseWave returns x such that wave(x) = y.
func inverseWave(y float64) float64 {
	low, high := y-1, y+1
	for range 60 {
		if middle := (low + high) / 2; wave(middle) < y {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

func (t *toy) training(n int) ood.Training {
	b := t.in(n)
	b.Network = t.network()
	return ood.Training{
		Batch: b, Last: &t.last, Trainer: randomTrainer{}, Outliers: t.out(n), Seed: 5, Targets: t.targets(b.Features), Levels: []float64{.1, .9},
		InputScale: ood.InputScale{Factor: []float32{2, 1, 4}},
	}
}

// toyRows holds sets of rows for tests.
type toyRows struct {
	training, many ood.Training
	in, out        ood.Batch
	// spread has rows from the distribution of out, to fit interval methods. Their targets
	// vary everywhere.
	spread     ood.Training
	outTargets blas32.General
}

func newToyRows() toyRows {
	t := newToy()
	r := toyRows{training: t.training(60), many: t.training(600), in: t.in(90), out: t.out(80), spread: t.training(60)}
	r.spread.Batch = t.out(1000)
	r.spread.Targets, r.outTargets = t.targets(r.spread.Features), t.targets(r.out.Features)
	return r
}

func zeros(n, h int) blas32.General {
	return blas32.General{Rows: n, Cols: h, Stride: h, Data: make([]float32, n*h)}
}

// strided returns a copy of m with gaps between its rows.
func strided(m blas32.General) blas32.General {
	s := blas32.General{Rows: m.Rows, Cols: m.Cols, Stride: m.Cols + 3}
	s.Data = slices.Repeat([]float32{float32(math.NaN())}, m.Rows*s.Stride)
	for i := range m.Rows {
		copy(s.Data[i*s.Stride:], m.Data[i*m.Stride:i*m.Stride+m.Cols])
	}
	return s
}

// randomTrainer is a Trainer that returns untrained networks with random weights.
type randomTrainer struct{}

func (randomTrainer) Train(ctx context.Context, p train.Problem) ([]train.Network, error) {
	networks := make([]train.Network, len(p.Models))
	for m := range networks {
		rng := rand.New(rand.NewPCG(p.Models[m].Seed, 1))
		in := p.X.Cols
		if p.Conditional {
			in++
		}
		for _, out := range append(slices.Clone(p.Hidden), p.Outputs) {
			l := train.Layer{W: zeros(in, out)}
			if !p.NoBias {
				l.B = make([]float32, out)
			}
			for _, data := range [][]float32{l.W.Data, l.B} {
				for i := range data {
					data[i] = float32(rng.NormFloat64())
				}
			}
			networks[m].Layers = append(networks[m].Layers, l)
			in = out
		}
	}
	rows.Progress(p.Progress).Tell(1)
	return networks, ctx.Err()
}

// engine returns a trainer that runs in ONNX Runtime.
func engine(t testing.TB) train.Trainer {
	t.Helper()
	e, err := fit.New(background, fit.Options{Library: orttest.Open(t).Library().Path, Provider: "cpu", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}
