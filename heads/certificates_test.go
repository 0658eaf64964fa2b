package heads

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/attach-uncertainty/attach/heads/train"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/rows"
)

func dense(m blas32.General) *mat.Dense {
	d := mat.NewDense(m.Rows, m.Cols, nil)
	for i := range m.Rows {
		for j := range m.Cols {
			d.Set(i, j, float64(m.Data[i*m.Stride+j]))
		}
	}
	return d
}

// penalised is tr(CᵀSC)/k + λ·mean((CᵀC−I)²), and its gradient in C.
func penalised(s mat.Symmetric, c *mat.Dense, lambda float64) (float64, *mat.Dense) {
	h, k := c.Dims()
	var sc, csc, ctc, pull mat.Dense
	sc.Mul(s, c)
	csc.Mul(c.T(), &sc)
	ctc.Mul(c.T(), c)
	for j := range k {
		ctc.Set(j, j, ctc.At(j, j)-1)
	}
	norm := mat.Norm(&ctc, 2)
	kk := float64(k)
	pull.Mul(c, &ctc)
	grad := mat.NewDense(h, k, nil)
	grad.Scale(2/kk, &sc)
	pull.Scale(4*lambda/(kk*kk), &pull)
	grad.Add(grad, &pull)
	return mat.Trace(&csc)/kk + lambda*norm*norm/(kk*kk), grad
}

func TestExactCertificatesAreBottomEigenvectors(t *testing.T) {
	phi := randomRows(400, 9, 0.5, 4)
	for _, centre := range []bool{false, true} {
		for _, unit := range []bool{false, true} {
			c, err := FitCertificates(context.Background(), phi, nil, CertificatesOptions{K: 4, Centre: centre, UnitNorm: unit})
			if err != nil {
				t.Fatal(err)
			}
			_, s, cov := twoPass(phi, unit)
			if centre {
				s = cov
			}
			d := dense(c.C)
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

// The penalised solution is a stationary point, and no descent from a random
// start ends lower.
func TestExactCertificatesWithPenalty(t *testing.T) {
	phi := randomRows(500, 8, 0.3, 5)
	_, s, _ := twoPass(phi, false)
	rng := rand.New(rand.NewPCG(6, 6))
	for _, lambda := range []float64{0.1, 0.3, 1, 10} {
		c, err := FitCertificates(context.Background(), phi, nil, CertificatesOptions{K: 5, Lambda: lambda})
		if err != nil {
			t.Fatal(err)
		}
		best, grad := penalised(s, dense(c.C), lambda)
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

// Below some λ the penalised solution is no certificate at all.
func TestExactCertificatesThatVanish(t *testing.T) {
	phi := randomRows(500, 8, 0.3, 5)
	if _, err := FitCertificates(context.Background(), phi, nil, CertificatesOptions{K: 5, Lambda: 0.05}); err == nil {
		t.Error("certificates that are all 0 are taken for a fit")
	}
}

// The gradient above is that of the penalised loss, by finite differences.
func TestPenalisedGradient(t *testing.T) {
	_, s, _ := twoPass(randomRows(50, 4, 0, 1), false)
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

// naiveScore is the score from its definition, in float64.
func naiveScore(c *Certificates, row []float32) float64 {
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
		if c.Loss == train.BCE {
			f = 1 / (1 + math.Exp(-f))
		}
		s += f * f
	}
	return s / float64(c.C.Cols)
}

func TestCertificatesScore(t *testing.T) {
	phi := randomRows(2100, 7, 0.4, 8)
	clear(phi.Data[5*phi.Stride : 5*phi.Stride+7])
	c := randomRows(7, 3, 0, 9)
	mean := []float32{1, 0, -1, 0.5, 2, 0, 0.1}
	for _, loss := range []train.Loss{train.MSE, train.BCE, train.L1, train.Pinball} {
		for _, unit := range []bool{false, true} {
			for _, m := range [][]float32{nil, mean} {
				cert := &Certificates{C: c, Mean: m, UnitNorm: unit, Loss: loss}
				got := cert.Score(nil, phi)
				for _, i := range []int{0, 5, 1023, 1024, 2099} {
					want := naiveScore(cert, phi.Data[i*phi.Stride:i*phi.Stride+7])
					if math.Abs(got[i]-want) > 1e-5*(1+want) {
						t.Errorf("%s, unit %v, mean %v: score %d is %v, want %v", loss, unit, m != nil, i, got[i], want)
					}
				}
				restored := &Certificates{}
				if err := rows.Restore(restored, rows.Save(cert), nil); err != nil {
					t.Fatal(err)
				}
				if again := restored.Score(make([]float64, phi.Rows), phi); !reflect.DeepEqual(again, got) {
					t.Errorf("%s, unit %v, mean %v: restored certificates score otherwise", loss, unit, m != nil)
				}
			}
		}
	}
	if got := (&Certificates{C: c}).Score(nil, blas32.General{}); len(got) != 0 {
		t.Errorf("no rows have scores %v", got)
	}
}

// recorder is a Trainer that notes what it is asked and returns small random
// weights.
type recorder struct{ problems []train.Problem }

func (r *recorder) Train(ctx context.Context, p train.Problem) ([]train.Network, error) {
	r.problems = append(r.problems, p)
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

func TestFitCertificatesGrid(t *testing.T) {
	phi := randomRows(60, 6, 1, 3)
	grid := []CertificatesOptions{
		{K: 3, Loss: train.BCE, Lambda: 1, Seed: 1},
		{K: 3},
		{K: 3, Loss: train.BCE, Lambda: 10, Seed: 2, LearningRate: 0.1},
		{K: 3, Trained: true, Loss: train.MSE},
		{K: 4, Loss: train.Pinball, UnitNorm: true, Centre: true, Level: 0.9, Epochs: 3, BatchSize: 7},
	}
	tr := &recorder{}
	got, err := FitCertificatesGrid(context.Background(), phi, tr, grid, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.problems) != 3 {
		t.Fatalf("%d runs, want 3", len(tr.problems))
	}
	p := tr.problems[0]
	want := []train.ModelConfig{
		{Seed: 1, LearningRate: 1e-3, Orthonormal: 1, Target: -1},
		{Seed: 2, LearningRate: 0.1, Orthonormal: 10, Target: -1},
	}
	if !reflect.DeepEqual(p.Models, want) || p.Loss != train.BCE || !p.NoBias || p.Outputs != 3 || p.Epochs != 10 || p.BatchSize != 64 {
		t.Errorf("first run is %+v", p)
	}
	last := tr.problems[2]
	if !reflect.DeepEqual(last.Levels, []float64{0.9, 0.9, 0.9, 0.9}) || last.Epochs != 3 || last.BatchSize != 7 {
		t.Errorf("last run is %+v", last)
	}
	mean, _, _ := twoPass(phi, true)
	var norm float64
	for j := range 6 {
		v := float64(last.X.Data[j]) + mean[j]
		norm += v * v
	}
	if math.Abs(norm-1) > 1e-5 {
		t.Errorf("rows given to the trainer have squared norm %v before centring", norm)
	}
	for i, c := range got {
		if c.Exact != (i == 1) || c.K() != max(grid[i].K, 1) || c.Lambda != grid[i].Lambda {
			t.Errorf("result %d is %+v", i, c)
		}
	}
	if got[0].C.Data[0] == got[2].C.Data[0] {
		t.Error("results of two seeds are one network")
	}
}

func TestFitCertificatesRefuses(t *testing.T) {
	nan := randomRows(30, 4, 0, 1)
	nan.Data[nan.Stride*2+1] = float32(math.NaN())
	good := randomRows(30, 4, 0, 1)
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, tt := range map[string]struct {
		ctx context.Context
		phi blas32.General
		tr  train.Trainer
		o   CertificatesOptions
	}{
		"NaN":              {phi: nan},
		"no rows":          {phi: blas32.General{Cols: 4, Stride: 4}},
		"k beyond h":       {phi: good, o: CertificatesOptions{K: 5}},
		"negative k":       {phi: good, o: CertificatesOptions{K: -1}},
		"constant score":   {phi: good, o: CertificatesOptions{K: 4, UnitNorm: true}},
		"too few rows":     {phi: rows.Slice(good, 0, 2), o: CertificatesOptions{K: 1}},
		"too few, centred": {phi: rows.Slice(good, 0, 3), o: CertificatesOptions{K: 1, Centre: true}},
		"negative lambda":  {phi: good, o: CertificatesOptions{Lambda: -1}},
		"NaN lambda":       {phi: good, o: CertificatesOptions{Lambda: math.NaN()}},
		"unknown loss":     {phi: good, tr: &recorder{}, o: CertificatesOptions{Loss: "hinge"}},
		"no trainer":       {phi: good, o: CertificatesOptions{Loss: train.BCE}},
		"level":            {phi: good, tr: &recorder{}, o: CertificatesOptions{Loss: train.Pinball, Level: 2}},
		"epochs":           {phi: good, tr: &recorder{}, o: CertificatesOptions{Loss: train.BCE, Epochs: -1}},
		"cancelled":        {ctx: cancelled, phi: good},
	} {
		if tt.ctx == nil {
			tt.ctx = context.Background()
		}
		if _, err := FitCertificates(tt.ctx, tt.phi, tt.tr, tt.o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	var few *rows.TooFewRowsError
	_, err := FitCertificates(context.Background(), rows.Slice(good, 0, 2), nil, CertificatesOptions{K: 1})
	if !errors.As(err, &few) || few.Need != 3 || few.Have != 2 {
		t.Errorf("error %v, want one that asks for 3 rows", err)
	}
}
