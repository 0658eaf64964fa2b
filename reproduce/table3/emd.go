package table3

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// emd embeds the conditional distribution of one variable given the other in a reproducing
// kernel Hilbert space. It measures how much the embedding changes if the conditioning
// variable becomes uniform. The change is smaller in the causal direction.
//
// Reference: Chen, Zhang, Chan & Schölkopf (2014), Causal discovery via reproducing kernel
// Hilbert space embeddings. The constants come from the code that Hernández-Lobato et al.
// (2016) published with GR-AN: λ = 1e-3, and the factor 5/(2·median distance) in the
// exponent of the Gaussian kernel.
func emd(x, y []float64, rng *rand.Rand) (float64, error) {
	x, y = subsample(x, y, kernelRows, rng)
	x, y = minMaxScaled(x), minMaxScaled(y)
	n := len(x)
	sigma := 5 / (2 * median(append(distances(x), distances(y)...)))
	u, v := make([]float64, n), make([]float64, n)
	for i := range u {
		u[i], v[i] = rng.Float64(), rng.Float64()
	}
	forward, err := embeddingChange(x, y, u, v, sigma)
	if err != nil {
		return 0, err
	}
	backward, err := embeddingChange(y, x, v, u, sigma)
	return backward - forward, err
}

// kernelRows is the maximum number of rows for emd, which takes cubic time in the rows.
const kernelRows = 200

// embeddingChange applies the conditional embedding of y to the uniform sample u. It
// returns the sum of two squared distances of the result, divided by n². The first is the
// distance to the embedding of the sample (x, y). The second is the distance to the
// embedding of independent uniform samples u and v.
func embeddingChange(x, y, u, v []float64, sigma float64) (float64, error) {
	n := float64(len(x))
	kx, ky, ku, kv := kernel(x, x, sigma), kernel(y, y, sigma), kernel(u, u, sigma), kernel(v, v, sigma)
	kxu, kyv := kernel(x, u, sigma), kernel(y, v, sigma)
	a := mat.NewSymDense(len(x), nil)
	for i := range x {
		for j := i; j < len(x); j++ {
			a.SetSym(i, j, kx.At(i, j))
		}
		a.SetSym(i, i, kx.At(i, i)+1e-3*n)
	}
	var chol mat.Cholesky
	if !chol.Factorize(a) {
		return 0, errSingular
	}
	var m, kym, mku mat.Dense
	if err := chol.SolveTo(&m, kxu); err != nil {
		return 0, err
	}
	kym.Mul(ky, &m)
	mku.Mul(&m, ku)
	squaredNorm := inner(&kym, &mku)
	toSample := inner(kx, ky) - 2*inner(&kym, kxu) + squaredNorm
	toUniform := squaredNorm - 2*inner(kyv, &mku) + inner(ku, kv)
	return (toSample + toUniform) / (n * n), nil
}

// kernel returns the Gaussian kernel matrix exp(−sigma·(aᵢ−bⱼ)²).
func kernel(a, b []float64, sigma float64) *mat.Dense {
	k := mat.NewDense(len(a), len(b), nil)
	for i, u := range a {
		for j, v := range b {
			k.Set(i, j, math.Exp(-sigma*(u-v)*(u-v)))
		}
	}
	return k
}

// inner returns the sum of the entrywise products of a and b.
func inner(a, b *mat.Dense) float64 {
	var sum float64
	rows, _ := a.Dims()
	for i := range rows {
		other := b.RawRowView(i)
		for j, v := range a.RawRowView(i) {
			sum += v * other[j]
		}
	}
	return sum
}

// distances returns the absolute differences between all pairs of unequal values.
func distances(v []float64) []float64 {
	var out []float64
	for i, a := range v {
		for _, b := range v[:i] {
			if a != b {
				out = append(out, math.Abs(a-b))
			}
		}
	}
	return out
}

func median(v []float64) float64 {
	slices.Sort(v)
	return quantileOf(v, .5)
}
