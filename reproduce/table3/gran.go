package table3

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// gran compares how Gaussian residuals are: those of the causal direction are less
// so, where cause and effect have one distribution. Each variable is given that of
// the other, a kernel regression is made both ways, and the larger of the two
// differences decides.
//
// Reference: Hernández-Lobato, Morales-Mombiela, Lopez-Paz & Suárez (2016),
// Non-linear causal inference using Gaussianity measures. As in their code the
// residuals' first principal component in feature space is tested by the energy
// distance. They choose width and penalty by tenfold cross-validation; here the
// width is the median heuristic of theirs, and the penalty is chosen by leaving
// one row out.
func gran(x, y []float64, rng *rand.Rand) (float64, error) {
	x, y = some(x, y, granRows, rng)
	x, y = standardised(x), standardised(y)
	asY, err := gaussianityGap(withDistribution(x, y, rng), y)
	if err != nil {
		return 0, err
	}
	asX, err := gaussianityGap(withDistribution(y, x, rng), x)
	if math.Abs(asY) > math.Abs(asX) {
		return asY, err
	}
	return -asX, err
}

// withDistribution gives the values of v those of another sample, by rank.
func withDistribution(v, other []float64, rng *rand.Rand) []float64 {
	sorted := slices.Sorted(slices.Values(other))
	out := make([]float64, len(v))
	for rank, i := range ordered(v, rng) {
		out[i] = sorted[rank]
	}
	return out
}

// gaussianityGap is by how much residuals of y given x are less Gaussian than
// those of x given y.
func gaussianityGap(x, y []float64) (float64, error) {
	forward, err := residualEnergy(x, y)
	if err != nil {
		return 0, err
	}
	backward, err := residualEnergy(y, x)
	return forward - backward, err
}

// residualEnergy is how far the first component of a kernel regression's residuals
// is from Gaussian.
func residualEnergy(x, y []float64) (float64, error) {
	kx, ky := symmetric(centredKernel(x)), centredKernel(y)
	var eigen mat.EigenSym
	if !eigen.Factorize(kx, true) {
		return 0, errSingular
	}
	values := eigen.Values(nil)
	var vectors, rotated, half mat.Dense
	eigen.VectorsTo(&vectors)
	half.Mul(vectors.T(), ky)
	rotated.Mul(&half, &vectors)
	n := len(x)
	best, least := 0., math.Inf(1)
	for power := -7.; power <= 7; power += 14. / 9 {
		// (I−H)·ky·(I−H), with H = kx·(kx+τI)⁻¹, on the diagonal.
		tau := math.Exp(power)
		var loss float64
		for i := range n {
			row := vectors.RawRowView(i)
			var left, error float64
			weighted := make([]float64, n)
			for j, v := range row {
				weighted[j] = v * tau / (values[j] + tau)
				left += v * weighted[j]
			}
			for j, w := range weighted {
				var sum float64
				for k, r := range rotated.RawRowView(j) {
					sum += r * weighted[k]
				}
				error += w * sum
			}
			loss += error / (left * left)
		}
		if loss < least {
			best, least = tau, loss
		}
	}
	// The residuals' kernel in the basis of the eigenvectors.
	for i := range n {
		for j := range n {
			rotated.Set(i, j, rotated.At(i, j)*best/(values[i]+best)*best/(values[j]+best))
		}
	}
	first, err := firstVector(&rotated)
	if err != nil {
		return 0, err
	}
	var component mat.VecDense
	component.MulVec(&vectors, mat.NewVecDense(n, first))
	return energyOfNormality(component.RawVector().Data), nil
}

func centredKernel(v []float64) *mat.Dense {
	n := len(v)
	k := kernel(v, v, 1/(2*median(distances(v))))
	means := make([]float64, n)
	var all float64
	for i := range n {
		for _, value := range k.RawRowView(i) {
			means[i] += value / float64(n)
		}
		all += means[i] / float64(n)
	}
	for i := range n {
		for j, value := range k.RawRowView(i) {
			k.Set(i, j, value-means[i]-means[j]+all)
		}
	}
	return k
}

func symmetric(m *mat.Dense) *mat.SymDense {
	n, _ := m.Dims()
	s := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			s.SetSym(i, j, (m.At(i, j)+m.At(j, i))/2)
		}
	}
	return s
}

// firstVector is the eigenvector of the largest eigenvalue, by power iteration.
func firstVector(m *mat.Dense) ([]float64, error) {
	n, _ := m.Dims()
	v := mat.NewVecDense(n, nil)
	// The largest column is not orthogonal to it.
	at := slices.MaxFunc(experiment.Indices(n), func(i, j int) int { return cmp.Compare(m.At(i, i), m.At(j, j)) })
	v.CopyVec(m.ColView(at))
	var next mat.VecDense
	for range 2000 {
		next.MulVec(m, v)
		norm := mat.Norm(&next, 2)
		if !(norm > 0) {
			return nil, errSingular
		}
		next.ScaleVec(1/norm, &next)
		agreed := mat.Dot(&next, v) / mat.Norm(v, 2)
		v.CopyVec(&next)
		if agreed > 1-1e-12 {
			break
		}
	}
	return v.RawVector().Data, nil
}

// energyOfNormality is the energy distance of standardised values from the
// standard normal, times n (Székely & Rizzo 2005).
func energyOfNormality(v []float64) float64 {
	n := float64(len(v))
	z := standardised(v)
	slices.Sort(z)
	var toNormal, between float64
	for i, a := range z {
		toNormal += 2*distuv.UnitNormal.Prob(a) + a*(2*distuv.UnitNormal.CDF(a)-1)
		between += 2 * (2*float64(i+1) - 1 - n) * a
	}
	return n * (2*toNormal/n - 2/math.Sqrt(math.Pi) - between/(n*n))
}

// granRows is the most rows that gran looks at.
const granRows = 150
