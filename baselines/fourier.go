package baselines

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/numeric/dense"
)

// fourier holds m random Fourier features, which approximate a Gaussian kernel.
type fourier struct {
	Frequencies blas64.General `state:"frequencies[features,m]"`
	Phases      []float64      `state:"phases[m]"`
}

type fourierKey struct {
	m     int
	gamma float64
	seed  uint64
}

// newFourier draws m random Fourier features of the kernel exp(−gamma·‖x−y‖²) for rows of h
// numbers.
func newFourier(h, m int, gamma float64, seed uint64) fourier {
	r := rand.New(rand.NewPCG(seed, 0))
	f := fourier{dense.New(h, m), make([]float64, m)}
	for i := range f.Frequencies.Data {
		f.Frequencies.Data[i] = math.Sqrt(2*gamma) * normal(r)
	}
	for j := range f.Phases {
		f.Phases[j] = 2 * math.Pi * r.Float64()
	}
	return f
}

// normal returns a random number from the standard normal distribution. It uses the method
// of Box & Muller instead of NormFloat64, because this gives the same numbers in other
// languages.
func normal(r *rand.Rand) float64 {
	radius := math.Sqrt(-2 * math.Log(1-r.Float64()))
	return radius * math.Cos(2*math.Pi*r.Float64())
}

// transform scales the rows of x to unit norm and returns their Fourier features.
func (f fourier) transform(x blas32.General) blas64.General {
	m := len(f.Phases)
	y, scale := dense.New(x.Rows, m), math.Sqrt(2/float64(m))
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, unitRows(x), f.Frequencies, 0, y)
	for i := range y.Data {
		y.Data[i] = scale * math.Cos(y.Data[i]+f.Phases[i%m])
	}
	return y
}
