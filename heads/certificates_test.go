package heads

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/headstest"
	"github.com/attach-uncertainty/attach/ood"
)

// fitTo fits m to the features phi, with a trainer that returns untrained networks.
func fitTo(t *testing.T, m ood.Method, phi blas32.General, p ood.Params) *fitting.Scorer {
	t.Helper()
	s, err := fitting.Fit(context.Background(), m, ood.Training{Batch: ood.Batch{Features: phi}, Trainer: &headstest.Recorder{}}, p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// toFloat64 converts m to float64.
func toFloat64(m blas32.General) *mat.Dense {
	d := mat.NewDense(m.Rows, m.Cols, nil)
	for i := range m.Rows {
		for j := range m.Cols {
			d.Set(i, j, float64(m.Data[i*m.Stride+j]))
		}
	}
	return d
}

// penalised returns the penalised loss tr(CᵀSC)/k + λ·mean((CᵀC−I)²), and its gradient with
// respect to C. S is the second moment of the features and k the number of columns of C.
func penalised(s mat.Symmetric, c *mat.Dense, lambda float64) (float64, *mat.Dense) {
	h, k := c.Dims()
	var sc, csc, ctc, penaltyGrad mat.Dense
	sc.Mul(s, c)
	csc.Mul(c.T(), &sc)
	ctc.Mul(c.T(), c)
	for j := range k {
		ctc.Set(j, j, ctc.At(j, j)-1)
	}
	norm := mat.Norm(&ctc, 2)
	kk := float64(k)
	penaltyGrad.Mul(c, &ctc)
	grad := mat.NewDense(h, k, nil)
	grad.Scale(2/kk, &sc)
	penaltyGrad.Scale(4*lambda/(kk*kk), &penaltyGrad)
	grad.Add(grad, &penaltyGrad)
	return mat.Trace(&csc)/kk + lambda*norm*norm/(kk*kk), grad
}

func TestExactCertificatesAreBottomEigenvectors(t *testing.T) {
	phi := headstest.Rows(400, 9, 0.5, 4)
	for _, centre := range []bool{false, true} {
		for _, unit := range []bool{false, true} {
			c := fitTo(t, certificatesMethod, phi, ood.Params{"k": 4., "centred": centre, "unit_norm": unit}).Fitted().(*certificates)
			_, s, cov := headstest.Moments(phi, unit)
			if centre {
				s = cov
			}
			d := toFloat64(c.C)
			var ctc, sc, proj mat.Dense
			ctc.Mul(d.T(), d)
			for i := range 4 {
				for j := range 4 {
					want := 0.0
					if i == j {
						want = 1
					}
					if math.Abs(ctc.At(i, j)-want) > 1e-6 {
						t.Errorf("centre %v, unit %v: CᵀC(%d,%d) = %v", centre, unit, i, j, ctc.At(i, j))
					}
				}
			}
			sc.Mul(s, d)
			proj.Mul(d.T(), &sc)
			var eig mat.EigenSym
			eig.Factorize(s, false)
			for j, want := range eig.Values(nil)[:4] {
				if math.Abs(proj.At(j, j)-want) > 1e-5*mat.Trace(s) {
					t.Errorf("centre %v, unit %v: value %d is %v, want %v", centre, unit, j, proj.At(j, j), want)
				}
			}
		}
	}
}

// TestExactCertificatesWithPenalty checks that the penalised solution is a stationary
// point, and that gradient descent from random starts never finds a lower loss.
func TestExactCertificatesWithPenalty(t *testing.T) {
	phi := headstest.Rows(500, 8, 0.3, 5)
	_, s, _ := headstest.Moments(phi, false)
	rng := rand.New(rand.NewPCG(6, 6))
	for _, lambda := range []float64{0.1, 0.3, 1, 10} {
		c := fitTo(t, certificatesMethod, phi, ood.Params{"k": 5., "lambda": lambda, "unit_norm": false}).Fitted().(*certificates)
		best, grad := penalised(s, toFloat64(c.C), lambda)
		if g := mat.Max(grad) - mat.Min(grad); g > 1e-5*(1+lambda) {
			t.Errorf("λ=%v: gradient is not zero: %v", lambda, g)
		}
		for range 5 {
			x := mat.NewDense(8, 5, nil)
			for i := range 8 {
				for j := range 5 {
					x.Set(i, j, rng.NormFloat64()*0.5)
				}
			}
			var value float64
			for range 5000 {
				var g *mat.Dense
				value, g = penalised(s, x, lambda)
				g.Scale(0.5/(1+lambda), g)
				x.Sub(x, g)
			}
			if value < best-1e-6 {
				t.Errorf("λ=%v: descent reaches %v, below the exact %v", lambda, value, best)
			}
		}
	}
}

// TestPenalisedGradient checks the gradient of the penalised loss against finite
// differences.
func TestPenalisedGradient(t *testing.T) {
	_, s, _ := headstest.Moments(headstest.Rows(50, 4, 0, 1), false)
	rng := rand.New(rand.NewPCG(1, 3))
	c := mat.NewDense(4, 2, nil)
	c.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, c)
	_, grad := penalised(s, c, 0.7)
	for i := range 4 {
		for j := range 2 {
			const step = 1e-5
			v := c.At(i, j)
			c.Set(i, j, v+step)
			up, _ := penalised(s, c, 0.7)
			c.Set(i, j, v-step)
			down, _ := penalised(s, c, 0.7)
			c.Set(i, j, v)
			if got := (up - down) / (2 * step); math.Abs(got-grad.At(i, j)) > 1e-7 {
				t.Errorf("slope (%d,%d) is %v, gradient %v", i, j, got, grad.At(i, j))
			}
		}
	}
}

// naiveScore computes the score of a row from its definition, in float64.
func naiveScore(c *certificates, row []float32) float64 {
	x := make([]float64, len(row))
	var norm float64
	for j, v := range row {
		x[j] = float64(v)
		norm += x[j] * x[j]
	}
	for j := range x {
		if c.UnitNorm && norm > 0 {
			x[j] /= math.Sqrt(norm)
		}
		if c.Mean != nil {
			x[j] -= float64(c.Mean[j])
		}
	}
	var s float64
	for k := range c.C.Cols {
		var f float64
		for j := range x {
			f += x[j] * float64(c.C.Data[j*c.C.Stride+k])
		}
		if c.Loss == "bce" {
			f = 1 / (1 + math.Exp(-f))
		}
		s += f * f
	}
	return s / float64(c.C.Cols)
}

func TestCertificatesScore(t *testing.T) {
	phi := headstest.Rows(2100, 7, 0.4, 8)
	clear(phi.Data[5*phi.Stride : 5*phi.Stride+7])
	c := headstest.Rows(7, 3, 0, 9)
	mean := []float32{1, 0, -1, 0.5, 2, 0, 0.1}
	for _, loss := range []train.Loss{"mse", "bce", "l1", "pinball"} {
		for _, unit := range []bool{false, true} {
			for _, m := range [][]float32{nil, mean} {
				cert := &certificates{C: c, Mean: m, UnitNorm: unit, Loss: loss}
				got := make([]float64, phi.Rows)
				if err := cert.Score(context.Background(), got, ood.Batch{Features: phi}); err != nil {
					t.Fatal(err)
				}
				for _, i := range []int{0, 5, 1023, 1024, 2099} {
					want := naiveScore(cert, phi.Data[i*phi.Stride:i*phi.Stride+7])
					if math.Abs(got[i]-want) > 1e-5*(1+want) {
						t.Errorf("%s, unit %v, mean %v: score %d is %v, want %v", loss, unit, m != nil, i, got[i], want)
					}
				}
			}
		}
	}
}

// TestTrainedCertificatesProblems checks the problems that the trainer gets. Configurations
// that differ only in λ must share one problem.
func TestTrainedCertificatesProblems(t *testing.T) {
	phi := headstest.Rows(60, 6, 1, 3)
	r := &headstest.Recorder{}
	training := ood.Training{Batch: ood.Batch{Features: phi}, Trainer: r, Seed: 5}
	var fractions []float64
	training.Progress = func(fraction float64) { fractions = append(fractions, fraction) }
	grid := []ood.Params{
		{"k": 3., "lambda": 1.}, {"k": 3., "lambda": 2.}, {"loss": "mse"},
		{"k": .5, "loss": "pinball", "unit_norm": true, "centred": true, "epochs": 3., "batch": 7.}, {"k": 3., "lambda": 9.},
	}
	fitted, err := fitting.FitGrid(context.Background(), certificatesTrainedMethod, training, grid)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) != 3 {
		t.Fatalf("%d runs, want 3", len(r.Problems))
	}
	if !slices.IsSorted(fractions) || fractions[len(fractions)-1] != 1 {
		t.Errorf("progress %v", fractions)
	}
	p := r.Problems[0]
	for i, lambda := range []float64{1, 2, 9} {
		want := train.ModelConfig{Seed: 5, LearningRate: 1e-3, Orthonormal: lambda, Target: -1}
		if m := p.Models[i]; m.Orthonormal != lambda || m.Seed != want.Seed || m.LearningRate != want.LearningRate || m.Target != -1 {
			t.Errorf("model %d is %+v, want %+v", i, m, want)
		}
	}
	if p.Loss != "bce" || !p.NoBias || p.Outputs != 3 || p.Epochs != 10 || p.BatchSize != 64 || len(p.Hidden) != 0 {
		t.Errorf("first run is %+v", p)
	}
	if p := r.Problems[1]; p.Loss != "mse" || p.Outputs != 4 || p.Models[0].Orthonormal != 10 {
		t.Errorf("second run is %+v", p)
	}
	last := r.Problems[2]
	if !slices.Equal(last.Levels, []float64{.5, .5, .5}) || last.Epochs != 3 || last.BatchSize != 7 {
		t.Errorf("last run is %+v", last)
	}
	mean, _, _ := headstest.Moments(phi, true)
	var norm float64
	for j := range 6 {
		v := float64(last.X.Data[j]) + mean[j]
		norm += v * v
	}
	if math.Abs(norm-1) > 1e-5 {
		t.Errorf("rows given to the trainer have squared norm %v before centring", norm)
	}
	for i, k := range []int{3, 3, 4, 3, 3} {
		if c := fitted[i].Fitted().(*certificates); c.C.Cols != k || c.Loss != r.Problems[[]int{0, 0, 1, 2, 0}[i]].Loss {
			t.Errorf("configuration %d has %d certificates of loss %s", i, c.C.Cols, c.Loss)
		}
	}
	training.Regression = true
	if _, err := fitting.Fit(context.Background(), certificatesUnregularisedMethod, training, nil); err != nil {
		t.Fatal(err)
	}
	if p := r.Problems[3]; p.Loss != "mse" || p.Models[0].Orthonormal != 0 {
		t.Errorf("without a penalty, of a regressor, the trainer is asked %+v", p)
	}
}

func TestCertificatesErrors(t *testing.T) {
	good := headstest.Rows(30, 4, 0, 1)
	for want, tt := range map[string]struct {
		m   ood.Method
		phi blas32.General
		p   ood.Params
	}{
		"between 1 and the number": {certificatesMethod, good, ood.Params{"k": 5.}},
		"must be a whole number":   {certificatesMethod, good, ood.Params{"k": -1.}},
		"every row of unit norm":   {certificatesMethod, good, ood.Params{"k": 4.}},
		"need at least 3 rows":     {certificatesMethod, rows.Slice(good, 0, 2), ood.Params{"k": 1.}},
		"need at least 4 rows":     {certificatesMethod, rows.Slice(good, 0, 3), ood.Params{"k": 1., "centred": true}},
		"so small":                 {certificatesMethod, good, ood.Params{"k": 3., "lambda": 1e-9, "unit_norm": false}},
		"number of features, 4":    {certificatesTrainedMethod, good, ood.Params{"k": 5.}},
		"all rows are equal":       {certificatesNonlinearMethod, blas32.General{Rows: 4, Cols: 2, Stride: 2, Data: []float32{.1, .7, .1, .7, .1, .7, .1, .7}}, nil},
		"2 rows":                   {certificatesNonlinearMethod, rows.Slice(good, 0, 1), nil},
	} {
		training := ood.Training{Batch: ood.Batch{Features: tt.phi}, Trainer: &headstest.Recorder{}}
		if _, err := fitting.Fit(context.Background(), tt.m, training, tt.p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s %v: %v, want %q", tt.m.Name, tt.p, err, want)
		}
	}
	var few *rows.TooFewRowsError
	_, err := fitting.Fit(context.Background(), certificatesMethod, ood.Training{Batch: ood.Batch{Features: rows.Slice(good, 0, 2)}}, ood.Params{"k": 1.})
	if !errors.As(err, &few) || few.Need != 3 || few.Have != 2 {
		t.Errorf("error %v, want one that asks for 3 rows", err)
	}
}

// TestClassCertificatesErrors checks that restored classes must all have the same number of
// certificates, because a graph stacks them in one tensor.
func TestClassCertificatesErrors(t *testing.T) {
	newCertificates := func(k int) *certificates { return &certificates{C: rows.New(2, k), Loss: "mse"} }
	s := &classCertificates{All: *newCertificates(1), Own: []int{0, 1}, Classes: []*certificates{newCertificates(1), newCertificates(2)}}
	if err := s.Restored(); err == nil {
		t.Error("classes with 1 and 2 certificates pass")
	}
	s.Classes[1] = newCertificates(1)
	if err := s.Restored(); err != nil {
		t.Error(err)
	}
}
