package table3

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// emd compares how much the conditional distribution, embedded in a reproducing
// kernel Hilbert space, depends on what it is conditioned on, relative to the
// uniform distribution: less so in the causal direction.
//
// Reference: Chen, Zhang, Chan & Schölkopf (2014), Causal discovery via reproducing
// kernel Hilbert space embeddings. The constants are those of the code that Hernández-Lobato
// et al. (2016) published with GR-AN: λ = 1e-3, a Gaussian kernel of five over twice the median distance.
func emd(x, y []float64, rng *rand.Rand) (float64, error) {
	x, y = some(x, y, kernelRows, rng)
	x, y = unit(x), unit(y)
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

// kernelRows is the most rows of methods that take the cube of their number.
const kernelRows = 200

// embeddingChange is how far the conditional embedding of y, moved to uniform u, is
// from that of the sample and from that of independent uniform u and v.
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
	moved := inner(&kym, &mku)
	first := inner(kx, ky) - 2*inner(&kym, kxu) + moved
	second := moved - 2*inner(kyv, &mku) + inner(ku, kv)
	return (first + second) / (n * n), nil
}

// kernel is the Gaussian one.
func kernel(a, b []float64, sigma float64) *mat.Dense {
	k := mat.NewDense(len(a), len(b), nil)
	for i, u := range a {
		for j, v := range b {
			k.Set(i, j, math.Exp(-sigma*(u-v)*(u-v)))
		}
	}
	return k
}

// inner is the sum of the products of entries.
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

// distances are those between different values.
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
