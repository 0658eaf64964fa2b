package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
)

// TestNonlinearCertificates checks the effect of each penalty on rows of noise. With the
// gradient penalty, and only with it, gradients must have norms near 1. With the diversity
// penalty, and only with it, outputs must have a second moment near I. Outputs on training
// rows must always be near 0.
func TestNonlinearCertificates(t *testing.T) {
	e := open(t)
	const d, k = 6, 3
	rng := rand.New(rand.NewPCG(4, 4))
	// Rows lie near a parabola in the first two columns. Linear functions can be small on
	// them only if they use other columns.
	x := matrix(800, d, func(int, int) float64 { return .05 * rng.NormFloat64() })
	for i := range x.Rows {
		u := rng.NormFloat64()
		x.Data[i*d] += float32(u)
		x.Data[i*d+1] += float32(u*u - 1)
	}
	for i := range x.Data {
		x.Data[i] /= .7 // so that the mean variance of features is about 1
	}
	fit := func(gradient, diversity float64) train.Network {
		trained, err := e.Train(context.Background(), train.Problem{
			X: x, Hidden: []int{64}, Outputs: k, Loss: "mse", Epochs: 60, BatchSize: 64,
			Models: []train.ModelConfig{{Seed: 2, LearningRate: 3e-3, Target: -1, GradientPenalty: gradient, Diversity: diversity}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return trained[0]
	}
	for _, test := range []struct {
		gradient, diversity     float64
		gradientOn, diversityOn bool // whether the gradient and the diversity penalty are used
	}{{0, 0, false, false}, {10, 0, true, false}, {0, 10, false, true}, {10, 10, true, true}} {
		c := fit(test.gradient, test.diversity)
		noise := normal(99, 2000, d)
		gradientError, momentError := gradientNormError(c, noise), secondMomentError(c.Apply(noise))
		onRows := 0.0
		for _, v := range c.Apply(x).Data {
			onRows += float64(v) * float64(v) / float64(k*x.Rows)
		}
		t.Logf("gradient %v, diversity %v: mean (‖∇f‖−1)² %.3f, mean (S−I)² %.3f, mean score of the rows %.4f",
			test.gradient, test.diversity, gradientError, momentError, onRows)
		if (gradientError < .02) != test.gradientOn {
			t.Errorf("gradient penalty %v: mean (‖∇f‖−1)² is %v", test.gradient, gradientError)
		}
		if (momentError < .05) != test.diversityOn {
			t.Errorf("diversity %v: mean (S−I)² is %v", test.diversity, momentError)
		}
		if onRows > .1 {
			t.Errorf("the rows trained on score %v", onRows)
		}
	}
}

// gradientNormError returns the mean of (‖∇f‖−1)² over rows and outputs, by finite
// differences.
func gradientNormError(n train.Network, x blas32.General) float64 {
	const step = 1e-2
	base := n.Apply(x)
	norms := make([]float64, len(base.Data))
	for j := range x.Cols {
		shifted := matrix(x.Rows, x.Cols, func(i, c int) float64 {
			v := float64(x.Data[i*x.Stride+c])
			if c == j {
				v += step
			}
			return v
		})
		for i, v := range n.Apply(shifted).Data {
			g := (float64(v) - float64(base.Data[i])) / step
			norms[i] += g * g
		}
	}
	var sum float64
	for _, v := range norms {
		difference := math.Sqrt(v) - 1
		sum += difference * difference / float64(len(norms))
	}
	return sum
}

// secondMomentError returns mean((S−I)²), where S is the second moment of the outputs f.
func secondMomentError(f blas32.General) float64 {
	var sum float64
	for a := range f.Cols {
		for b := range f.Cols {
			var s float64
			for i := range f.Rows {
				s += float64(f.Data[i*f.Stride+a]) * float64(f.Data[i*f.Stride+b]) / float64(f.Rows)
			}
			if a == b {
				s--
			}
			sum += s * s / float64(f.Cols*f.Cols)
		}
	}
	return sum
}
