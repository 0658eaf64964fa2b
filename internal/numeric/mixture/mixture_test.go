package mixture

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distmv"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// TestOneGaussian compares a mixture of one component with the normal distribution that has
// the mean and the covariance of the rows.
func TestOneGaussian(t *testing.T) {
	const n, h, lambda = 1500, 4, .1
	r := rand.New(rand.NewPCG(3, 4))
	x, matrix := rows.New(n, h), mat.NewDense(n, h, nil)
	for i := range n {
		shared := r.NormFloat64()
		for j := range h {
			x.Data[i*h+j] = float32(5 + shared + float64(j)*r.NormFloat64())
			matrix.Set(i, j, float64(x.Data[i*h+j]))
		}
	}
	covariance := mat.NewSymDense(h, nil)
	stat.CovarianceMatrix(covariance, matrix, nil)
	covariance.ScaleSym(float64(n-1)/n, covariance)
	mean := make([]float64, h)
	for j := range h {
		mean[j] = stat.Mean(mat.Col(nil, j, matrix), nil)
		covariance.SetSym(j, j, covariance.At(j, j)+lambda)
	}
	for _, full := range []bool{true, false} {
		m, err := Fit(t.Context(), x, make([]int, n), full, lambda, func(float64) {})
		if err != nil {
			t.Fatal(err)
		}
		if !full {
			for i := range h {
				for j := range i {
					covariance.SetSym(i, j, 0)
				}
			}
		}
		normal, _ := distmv.NewNormal(mean, covariance, nil)
		got := make([]float64, n)
		m.LogDensities(got, x)
		for i, v := range got {
			if want := normal.LogProb(matrix.RawRowView(i)); math.Abs(v-want) > 1e-9*math.Abs(want) {
				t.Fatalf("full %v: row %d has log density %v, want %v", full, i, v, want)
			}
		}
	}
}
