package baselines

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
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/ood"
)

func quantileTrainer(t testing.TB) train.Trainer {
	t.Helper()
	orttest.Open(t)
	e, err := fit.New(context.Background(), fit.Options{Provider: "cpu", NoInstall: true, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// noisyWave returns rows x with two targets. The noise of the targets increases with |x|,
// and the second target is the negative of the first.
func noisyWave(n int, seed uint64) (x, y blas32.General) {
	rng := rand.New(rand.NewPCG(seed, 0))
	x, y = rows.New(n, 2), rows.New(n, 2)
	for i := range n {
		v := 4*rng.Float64() - 2
		x.Data[2*i], x.Data[2*i+1] = float32(v), 7 // the second column is constant
		w := 100 + 10*math.Sin(2*v) + (1+math.Abs(v))*rng.NormFloat64()
		y.Data[2*i], y.Data[2*i+1] = float32(w), float32(-w)
	}
	return x, y
}

// TestQuantileNetworks checks the coverage of 90 % intervals on new rows, for each interval
// method that trains networks.
func TestQuantileNetworks(t *testing.T) {
	trainer := quantileTrainer(t)
	x, y := noisyWave(1200, 1)
	heldX, heldY := noisyWave(300, 2)
	testX, testY := noisyWave(1000, 3)
	levels := []float64{.05, .95}
	for _, c := range []struct {
		ood.Method
		dropout     float64
		least, most float64
	}{
		{conditionalGaussianMethod, 0, .8, .97},
		{dropoutQuantilesMethod, .3, .1, .95}, // its intervals do not include the noise of the targets
		{qualityDrivenMethod, 0, .8, .97},
	} {
		t.Run(c.Name, func(t *testing.T) {
			s, err := fitting.Fit(t.Context(), c.Method, ood.Training{
				Batch: ood.Batch{Features: x}, Targets: y, Trainer: trainer, Levels: levels, Seed: 5,
				Validation: heldX, ValidationTargets: heldY,
			}, ood.Params{"epochs": 40, "learning_rate": 1e-2, "averaging": .5, "dropout": c.dropout})
			if err != nil {
				t.Fatal(err)
			}
			q := s.Quantiles(testX, levels)
			covered := 0.
			for i, v := range testY.Data {
				if q.Data[2*i] < v && v < q.Data[2*i+1] {
					covered += 1 / float64(len(testY.Data))
				}
			}
			if covered < c.least || covered > c.most {
				t.Errorf("coverage of 90 %% intervals is %v", covered)
			}
		})
	}
}

// smallRegression returns a random network with two inputs, one target and the given widths
// of hidden layers.
func smallRegression(outputs int, widths ...int) mlp.Regression {
	rng := rand.New(rand.NewPCG(1, 1))
	n := mlp.Regression{
		X: mlp.Standard{Mean: []float64{1, -1}, Scale: []float64{2, 3}},
		Y: mlp.Standard{Mean: []float64{50}, Scale: []float64{4}},
	}
	var network train.Network
	in := 2
	for _, out := range append(widths, outputs) {
		l := train.Layer{W: rows.New(in, out), B: make([]float32, out)}
		for _, data := range [][]float32{l.W.Data, l.B} {
			for i := range data {
				data[i] = float32(rng.NormFloat64())
			}
		}
		network.Layers = append(network.Layers, l)
		in = out
	}
	n.Networks = []train.Network{network}
	return n
}

// TestDropoutDistribution checks quantiles against the exact distribution of the output.
// There are only 2³ networks that dropout of three hidden units can produce.
func TestDropoutDistribution(t *testing.T) {
	const rate = .25
	n := smallRegression(1, 3)
	l := n.Networks[0].Layers
	h := applyHidden(l[0], blas32.General{Rows: 1, Cols: 2, Stride: 2, Data: []float32{1, 1}}).Data
	type outcome struct{ value, p float64 }
	var outcomes []outcome
	for mask := range 8 {
		o := outcome{float64(l[1].B[0]), 1}
		for j := range 3 {
			if mask>>j&1 == 1 {
				o.value += float64(h[j]*l[1].W.Data[j]) / (1 - rate)
				o.p *= 1 - rate
			} else {
				o.p *= rate
			}
		}
		o.value = 50 + 4*o.value
		outcomes = append(outcomes, o)
	}
	x := blas32.General{Rows: 1, Cols: 2, Stride: 2, Data: []float32{3, 2}}
	for _, tau := range []float64{.02, .3, .5, .9} {
		got := float64((&dropoutQuantiles{n, rate, 1}).Quantiles(x, []float64{tau}).Data[0])
		var below, atMost float64
		for _, o := range outcomes {
			if o.value < got-1e-3 {
				below += o.p
			}
			if o.value < got+1e-3 {
				atMost += o.p
			}
		}
		// slack is three standard errors of a fraction of 1,000 passes.
		if slack := 3 * math.Sqrt(tau*(1-tau)/1000); below > tau+slack || atMost < tau-slack {
			t.Errorf("quantile %v is %v, which lies between the levels %v and %v", tau, got, below, atMost)
		}
	}
}

// TestDropoutLayers checks passes against networks with explicitly masked weights. The
// networks have zero to three hidden layers.
func TestDropoutLayers(t *testing.T) {
	x := rows.New(3, 2)
	for i := range x.Data {
		x.Data[i] = float32(i) - 2.5
	}
	for _, widths := range [][]int{nil, {4}, {4, 3}, {3, 4, 2}} {
		network := smallRegression(1, widths...).Networks[0]
		p := newDropoutNetwork(network, .4, 3)
		got := p.apply(x)
		for _, pass := range []int{0, 1, 999} {
			masked := train.Network{Layers: slices.Clone(network.Layers)}
			for k := range widths {
				masked.Layers[k+1] = dropInputs(network.Layers[k+1], p.masks[k], pass)
			}
			for i, want := range masked.Apply(x).Data {
				if v := got.Data[i*got.Stride+pass]; math.Abs(float64(v-want)) > 1e-4 {
					t.Errorf("%v: pass %d of row %d is %v, want %v", widths, pass, i, v, want)
				}
			}
		}
	}
}

func TestGaussianVariance(t *testing.T) {
	for v, want := range map[float64]float64{0: math.Ln2 + 1e-3, 1000: 1000.001, -1000: 1e-3, 2: math.Log(1+math.Exp(2)) + 1e-3} {
		if got := gaussianVariance(v); math.Abs(got-want) > 1e-12*max(want, 1) {
			t.Errorf("variance of %v is %v, want %v", v, got, want)
		}
	}
}
