package fit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
)

func matrix(rows, cols int, at func(i, j int) float64) blas32.General {
	g := blas32.General{Rows: rows, Cols: cols, Stride: cols, Data: make([]float32, rows*cols)}
	for i := range rows {
		for j := range cols {
			g.Data[i*cols+j] = float32(at(i, j))
		}
	}
	return g
}

func normal(seed uint64, rows, cols int) blas32.General {
	rng := rand.New(rand.NewPCG(seed, 0))
	return matrix(rows, cols, func(int, int) float64 { return rng.NormFloat64() })
}

func trained(t *testing.T, e *Engine, p train.Problem) []train.Network {
	t.Helper()
	n, err := e.Train(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestModelAxis checks that models trained together equal the same models trained
// separately.
func TestModelAxis(t *testing.T) {
	e := open(t)
	configs := []train.ModelConfig{
		{Seed: 1, LearningRate: 1e-2},
		{Seed: 2, LearningRate: 1e-3, WeightDecay: 0.1},
		{Seed: 1, LearningRate: 3e-3, WeightDecay: 0.2},
		{Seed: 3, LearningRate: 1e-2, Dropout: 0.5, Orthonormal: 0.1, Target: 1},
		{Seed: 3, LearningRate: 1e-2, Dropout: 0.1},
	}
	for _, test := range []struct {
		name string
		edit func(p *train.Problem)
	}{
		{"as they are", func(*train.Problem) {}},
		{"one seed", func(p *train.Problem) {
			for i := range p.Models {
				p.Models[i].Seed = 5
			}
		}},
		{"equal but for the seed", func(p *train.Problem) {
			for i := range p.Models {
				p.Models[i] = train.ModelConfig{Seed: uint64(i), LearningRate: 1e-2, Dropout: 0.2}
			}
		}},
		{"no hidden layer", func(p *train.Problem) { p.Hidden = nil }},
		{"several outputs", func(p *train.Problem) {
			p.Conditional, p.Levels, p.Outputs = false, []float64{0.2, 0.8}, 2
		}},
		{"penalties on noise", func(p *train.Problem) {
			p.Conditional, p.Levels, p.Outputs = false, []float64{0.2, 0.8}, 2
			p.Models[0].GradientPenalty, p.Models[3].Diversity, p.Models[4].Diversity = 2, 3, 1
		}},
		{"penalties on noise, one seed", func(p *train.Problem) {
			p.Conditional, p.Levels, p.Outputs = false, []float64{0.2, 0.8}, 2
			for i := range p.Models {
				p.Models[i].Seed, p.Models[i].GradientPenalty, p.Models[i].Diversity = 5, float64(i), float64(4-i)
			}
		}},
		{"a level each", func(p *train.Problem) {
			p.Conditional = false
			for i := range p.Models {
				p.Models[i].Level = []float64{0.1, 0.3, 0.5, 0.8, 0.95}[i]
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := train.Problem{
				X: normal(1, 50, 3), Y: normal(2, 50, 2), Hidden: []int{8, 8}, Outputs: 1,
				Loss: "pinball", Conditional: true, Models: slices.Clone(configs), Epochs: 4, BatchSize: 16,
			}
			test.edit(&p)
			together := trained(t, e, p)
			for m, config := range p.Models {
				q := p
				q.Models = []train.ModelConfig{config}
				alone := trained(t, e, q)[0]
				for i, l := range alone.Layers {
					compare(t, "weight", i, together[m].Layers[i].W.Data, l.W.Data, 1e-4)
					compare(t, "bias", i, together[m].Layers[i].B, l.B, 1e-4)
				}
				if d := math.Abs(together[m].Loss - alone.Loss); d > 1e-4*alone.Loss {
					t.Errorf("model %d: loss %v together, %v alone", m, together[m].Loss, alone.Loss)
				}
			}
		})
	}
}

func TestSameBytes(t *testing.T) {
	for _, p := range []train.Problem{
		benchProblem(300, 20, 32, 64, 2),
		benchProblem(600, 200, 128, 256, 3), // large enough to use several threads
	} {
		p.Epochs = 3
		p.Models[0].Dropout = 0.3
		first, second := trained(t, open(t), p), trained(t, open(t), p)
		for m := range first {
			for i, l := range first[m].Layers {
				if !slices.Equal(l.W.Data, second[m].Layers[i].W.Data) || !slices.Equal(l.B, second[m].Layers[i].B) {
					t.Errorf("%d columns: model %d, layer %d differs between two runs", p.X.Cols, m, i)
				}
			}
		}
		if slices.Equal(first[0].Layers[0].W.Data, first[1].Layers[0].W.Data) {
			t.Error("models of different seeds are equal")
		}
	}
}

// TestQuantiles checks predicted quantiles of y = x + noise against the known quantiles.
func TestQuantiles(t *testing.T) {
	const n, sigma = 2000, 0.5
	rng := rand.New(rand.NewPCG(1, 1))
	x := matrix(n, 1, func(int, int) float64 { return 4*rng.Float64() - 2 })
	y := matrix(n, 1, func(i, _ int) float64 { return float64(x.Data[i]) + sigma*rng.NormFloat64() })
	e := open(t)
	net := trained(t, e, train.Problem{
		X: x, Y: y, Hidden: []int{32}, Outputs: 1, Loss: "pinball", Conditional: true,
		Models: []train.ModelConfig{{Seed: 1, LearningRate: 1e-2}}, Epochs: 60, BatchSize: 64,
	})[0]
	for _, level := range []struct{ tau, z float64 }{{0.1, -1.2816}, {0.5, 0}, {0.9, 1.2816}} {
		for _, at := range []float64{-1, 0, 1} {
			got := predict(net, float32(at), float32((level.tau-0.5)*12))
			if want := at + sigma*level.z; math.Abs(float64(got)-want) > 0.15 {
				t.Errorf("quantile %v at %v is %.3f, want about %.3f", level.tau, at, got, want)
			}
		}
	}
}

func predict(n train.Network, x ...float32) float32 {
	for i, l := range n.Layers {
		next := make([]float32, l.W.Cols)
		copy(next, l.B)
		for j := range next {
			for k, v := range x {
				next[j] += v * l.W.Data[k*l.W.Stride+j]
			}
			if i+1 < len(n.Layers) {
				next[j] = max(next[j], 0)
			}
		}
		x = next
	}
	return x[0]
}

// TestCertificatesLearn checks that each loss of certificates decreases, and that a large
// penalty makes certificates orthonormal.
func TestCertificatesLearn(t *testing.T) {
	e := open(t)
	for _, loss := range []train.Loss{"bce", "mse", "l1", "pinball"} {
		p := train.Problem{
			X: normal(1, 256, 12), Outputs: 4, NoBias: true, Loss: loss, Epochs: 1, BatchSize: 64,
			Models: []train.ModelConfig{{Seed: 1, LearningRate: 1e-2, Orthonormal: 100, Target: -1}},
		}
		if loss == "pinball" {
			p.Levels = []float64{0.5}
		}
		first := trained(t, e, p)[0]
		p.Epochs = 200
		last := trained(t, e, p)[0]
		if !(last.Loss < 0.5*first.Loss) {
			t.Errorf("%s: loss %v after an epoch, %v after 200", loss, first.Loss, last.Loss)
		}
		c := last.Layers[0].W
		gram := matrix(4, 4, func(int, int) float64 { return 0 })
		blas32.Gemm(blas.Trans, blas.NoTrans, 1, c, c, 0, gram)
		for i := range 4 {
			for j := range 4 {
				want := 0.0
				if i == j {
					want = 1
				}
				if d := math.Abs(float64(gram.Data[i*4+j]) - want); d > 0.05 {
					t.Errorf("%s: CᵀC[%d,%d] is %v, want %v", loss, i, j, gram.Data[i*4+j], want)
				}
			}
		}
	}
}

// TestGroups checks that large models are trained in groups that fit in memory, and that
// small models are trained all together.
func TestGroups(t *testing.T) {
	small := benchProblem(100, 4, 64, 64, 300)
	if g := groupSize(small); g != 300 {
		t.Errorf("groups of %d of 300 small models", g)
	}
	large := benchProblem(2, 512, 1024, 256, 300)
	if g := groupSize(large); g < 2 || g > 100 {
		t.Errorf("groups of %d of 300 large models", g)
	}
	huge := benchProblem(2, 20000, 20000, 256, 2)
	if g := groupSize(huge); g != 1 {
		t.Errorf("groups of %d of 2 huge models", g)
	}
}

func TestFewRows(t *testing.T) {
	e := open(t)
	for _, n := range []int{1, 2, 7} {
		p := train.Problem{
			X: normal(1, n, 3), Y: normal(2, n, 1), Hidden: []int{4}, Outputs: 1, Loss: "mse",
			Models: []train.ModelConfig{{LearningRate: 1e-2}}, Epochs: 3, BatchSize: 64,
		}
		var reported []float64
		p.Progress = func(fraction float64) { reported = append(reported, fraction) }
		trained(t, e, p)
		if !slices.Equal(reported, []float64{1. / 3, 2. / 3, 1}) {
			t.Errorf("%d rows: progress %v, want three steps", n, reported)
		}
	}
}

// TestStride checks that gaps between the rows of X are ignored.
func TestStride(t *testing.T) {
	e := open(t)
	p := train.Problem{
		X: normal(1, 40, 3), Y: normal(2, 40, 1), Hidden: []int{4}, Outputs: 1, Loss: "mse",
		Models: []train.ModelConfig{{LearningRate: 1e-2}}, Epochs: 2, BatchSize: 16,
	}
	want := trained(t, e, p)[0]
	wide := matrix(40, 5, func(i, j int) float64 {
		if j < 3 {
			return float64(p.X.Data[i*3+j])
		}
		return math.NaN()
	})
	p.X = blas32.General{Rows: 40, Cols: 3, Stride: 5, Data: wide.Data}
	if got := trained(t, e, p)[0]; !slices.Equal(got.Layers[0].W.Data, want.Layers[0].W.Data) {
		t.Error("a stride changes the result")
	}
}

func TestDiverged(t *testing.T) {
	e := open(t)
	p := train.Problem{
		X: normal(1, 40, 3), Y: normal(2, 40, 1), Hidden: []int{4}, Outputs: 1, Loss: "mse",
		Models: []train.ModelConfig{{LearningRate: 1e-3}, {LearningRate: 1e30}}, Epochs: 5, BatchSize: 16,
	}
	_, err := e.Train(context.Background(), p)
	var diverged *train.DivergedError
	if !errors.As(err, &diverged) || diverged.Model != 1 || !strings.Contains(err.Error(), "learning rate below 1e+30") {
		t.Errorf("error %v, want one that says that model 1 diverged", err)
	}
	p.X.Data[5*3+1] = float32(math.NaN())
	_, err = e.Train(context.Background(), p)
	var bad *rows.NotFiniteError
	if !errors.As(err, &bad) || bad.Row != 5 || bad.Col != 1 {
		t.Errorf("error %v, want one that names row 5, column 1", err)
	}
}

func TestCancel(t *testing.T) {
	e := open(t)
	ctx, cancel := context.WithCancel(context.Background())
	reported := 0.
	_, err := e.Train(ctx, train.Problem{
		X: normal(1, 400, 3), Y: normal(2, 400, 1), Hidden: []int{4}, Outputs: 1, Loss: "mse",
		Models: []train.ModelConfig{{LearningRate: 1e-3}}, Epochs: 1000, BatchSize: 16,
		Progress: func(fraction float64) { reported = fraction; cancel() },
	})
	if !errors.Is(err, context.Canceled) || reported > .1 {
		t.Errorf("error %v after a share of %v, want context.Canceled after the first report", err, reported)
	}
	if _, err := e.Train(ctx, train.Problem{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestBadProblems(t *testing.T) {
	good := func() train.Problem {
		return train.Problem{
			X: normal(1, 10, 3), Y: normal(2, 10, 2), Hidden: []int{4}, Outputs: 1, Loss: "pinball", Conditional: true,
			Models: []train.ModelConfig{{LearningRate: 1e-3}}, Epochs: 1, BatchSize: 4,
		}
	}
	if err := check(good()); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		want string
		edit func(p *train.Problem)
	}{
		{"nothing to train on", func(p *train.Problem) { p.X = blas32.General{} }},
		{"there are 10 rows of X, but 9 of Y", func(p *train.Problem) { p.Y = normal(2, 9, 2) }},
		{"at least one output", func(p *train.Problem) { p.Outputs = 0 }},
		{"no models", func(p *train.Problem) { p.Models = nil }},
		{"the number of epochs must be at least 1", func(p *train.Problem) { p.Epochs = 0 }},
		{"the batch size must be at least 1", func(p *train.Problem) { p.BatchSize = 0 }},
		{`unknown loss "hinge"`, func(p *train.Problem) { p.Loss = "hinge" }},
		{"hidden layer", func(p *train.Problem) { p.Hidden = []int{0} }},
		{"units and 1 outputs make 1e+17 weights", func(p *train.Problem) { p.Hidden = []int{1e8, 1e9} }},
		{"averaging", func(p *train.Problem) { p.Models[0].Averaging = 1 }},
		{"gaussian-nll loss needs targets", func(p *train.Problem) { p.Loss, p.Y = "gaussian-nll", blas32.General{} }},
		{"reads 2 outputs for 1 target", func(p *train.Problem) { p.Loss, p.Conditional = "gaussian-nll", false }},
		{"two increasing levels", func(p *train.Problem) { p.Loss, p.Conditional = "quality-driven", false }},
		{"only pinball losses have quantile levels", func(p *train.Problem) { p.Loss = "mse" }},
		{"between 0 and 1", func(p *train.Problem) { p.Levels = []float64{1} }},
		{"needs levels", func(p *train.Problem) { p.Conditional = false }},
		{"1 outputs for 2 quantile levels", func(p *train.Problem) { p.Conditional, p.Levels = false, []float64{.1, .9} }},
		{"learning rate", func(p *train.Problem) { p.Models[0].LearningRate = math.NaN() }},
		{"weight decay", func(p *train.Problem) { p.Models[0].WeightDecay = -1 }},
		{"dropout", func(p *train.Problem) { p.Models[0].Dropout = 1 }},
		{"orthonormality", func(p *train.Problem) { p.Models[0].Orthonormal = math.Inf(1) }},
		{"gradient penalty must not be negative", func(p *train.Problem) { p.Models[0].GradientPenalty = -1 }},
		{"weight of diversity", func(p *train.Problem) { p.Models[0].Diversity = math.NaN() }},
		{"a conditional network cannot have a gradient penalty", func(p *train.Problem) { p.Models[0].GradientPenalty = 1 }},
		{"target 2 of 2", func(p *train.Problem) { p.Models[0].Target = 2 }},
		{"either all models learn all targets, or each learns one", func(p *train.Problem) {
			p.Models = append(p.Models, train.ModelConfig{LearningRate: 1, Target: -1})
		}},
		{"model 0: a quantile level", func(p *train.Problem) { p.Conditional, p.Models[0].Level = false, 1.5 }},
		{"only with a pinball loss that is not conditional", func(p *train.Problem) { p.Models[0].Level = .5 }},
		{"all models have their own level or none", func(p *train.Problem) {
			p.Conditional, p.Models = false, []train.ModelConfig{{LearningRate: 1, Level: .5}, {LearningRate: 1}}
		}},
		{"1 outputs for 2 targets", func(p *train.Problem) { p.Models[0].Target = -1 }},
	} {
		p := good()
		test.edit(&p)
		if err := check(p); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want one that says %q", err, test.want)
		}
	}
}

// TestLevelEach checks that a model with its own level learns the same weights as a model
// of a problem with this level.
func TestLevelEach(t *testing.T) {
	e := open(t)
	p := train.Problem{
		X: normal(1, 60, 3), Y: normal(2, 60, 1), Hidden: []int{8}, Outputs: 1, Loss: "pinball", Epochs: 20, BatchSize: 16,
		Models:     []train.ModelConfig{{Seed: 1, LearningRate: 1e-2, Level: .1}, {Seed: 1, LearningRate: 1e-2, Level: .9}},
		Validation: &train.Validation{X: normal(3, 30, 3), Y: normal(4, 30, 1)},
	}
	for m, n := range trained(t, e, p) {
		q := p
		q.Levels, q.Models = []float64{p.Models[m].Level}, []train.ModelConfig{{Seed: 1, LearningRate: 1e-2}}
		sameNetwork(t, n, trained(t, e, q)[0])
	}
}

func TestClosed(t *testing.T) {
	e := open(t)
	e.Close()
	if _, err := e.Train(context.Background(), benchProblem(8, 2, 4, 4, 1)); err == nil {
		t.Error("a closed engine trains")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
