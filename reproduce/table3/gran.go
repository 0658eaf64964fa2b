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

// gran compares the Gaussianity of regression residuals. If cause and effect have the same
// distribution, the residuals of the causal direction are less Gaussian. The function
// therefore gives each variable the distribution of the other in turn, and regresses in
// both directions. The larger of the two differences decides.
//
// The authors choose width and penalty by tenfold cross-validation. This function takes
// their median heuristic for the width and chooses the penalty by leave-one-out
// cross-validation.
func gran(x, y []float64, rng *rand.Rand) (float64, error) {
	x, y = subsample(x, y, granRows, rng)
	x, y = standardised(x), standardised(y)
	yGap, err := gaussianityGap(matchDistribution(x, y, rng), y)
	if err != nil {
		return 0, err
	}
	xGap, err := gaussianityGap(matchDistribution(y, x, rng), x)
	if math.Abs(yGap) > math.Abs(xGap) {
		return yGap, err
	}
	return -xGap, err
}

// matchDistribution replaces each value of v by the value of other that has the same rank.
func matchDistribution(v, other []float64, rng *rand.Rand) []float64 {
	sorted := slices.Sorted(slices.Values(other))
	out := make([]float64, len(v))
	for rank, i := range rankOrder(v, rng) {
		out[i] = sorted[rank]
	}
	return out
}

// gaussianityGap returns how much less Gaussian the residuals of y given x are than the
// residuals of x given y.
func gaussianityGap(x, y []float64) (float64, error) {
	forward, err := residualEnergy(x, y)
	if err != nil {
		return 0, err
	}
	backward, err := residualEnergy(y, x)
	return forward - backward, err
}

// residualEnergy regresses y on x with kernels. It returns the energy distance between the
// first principal component of the residuals and a Gaussian.
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
	bestTau, leastLoss := 0., math.Inf(1)
	for power := -7.; power <= 7; power += 14. / 9 {
		// The loss uses the diagonal of (I−H)·ky·(I−H), with H = kx·(kx+τI)⁻¹ and the
		// penalty τ.
		tau := math.Exp(power)
		var loss float64
		for i := range n {
			row := vectors.RawRowView(i)
			var oneMinusLeverage, residual float64
			weighted := make([]float64, n)
			for j, v := range row {
				weighted[j] = v * tau / (values[j] + tau)
				oneMinusLeverage += v * weighted[j]
			}
			for j, w := range weighted {
				var sum float64
				for k, r := range rotated.RawRowView(j) {
					sum += r * weighted[k]
				}
				residual += w * sum
			}
			loss += residual / (oneMinusLeverage * oneMinusLeverage)
		}
		if loss < leastLoss {
			bestTau, leastLoss = tau, loss
		}
	}
	// Transform rotated to the kernel matrix of the residuals, in the basis of the
	// eigenvectors.
	for i := range n {
		for j := range n {
			rotated.Set(i, j, rotated.At(i, j)*bestTau/(values[i]+bestTau)*bestTau/(values[j]+bestTau))
		}
	}
	eigenvector, err := leadingEigenvector(&rotated)
	if err != nil {
		return 0, err
	}
	var component mat.VecDense
	component.MulVec(&vectors, mat.NewVecDense(n, eigenvector))
	return energyOfNormality(component.RawVector().Data), nil
}

func centredKernel(v []float64) *mat.Dense {
	n := len(v)
	k := kernel(v, v, 1/(2*median(distances(v))))
	means := make([]float64, n)
	var grandMean float64
	for i := range n {
		for _, value := range k.RawRowView(i) {
			means[i] += value / float64(n)
		}
		grandMean += means[i] / float64(n)
	}
	for i := range n {
		for j, value := range k.RawRowView(i) {
			k.Set(i, j, value-means[i]-means[j]+grandMean)
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

// leadingEigenvector returns the eigenvector of the largest eigenvalue, found by power
// iteration.
func leadingEigenvector(m *mat.Dense) ([]float64, error) {
	n, _ := m.Dims()
	v := mat.NewVecDense(n, nil)
	// Start from the column with the largest diagonal entry, which is hardly ever orthogonal
	// to the eigenvector.
	largest := slices.MaxFunc(experiment.Indices(n), func(i, j int) int { return cmp.Compare(m.At(i, i), m.At(j, j)) })
	v.CopyVec(m.ColView(largest))
	var next mat.VecDense
	for range 2000 {
		next.MulVec(m, v)
		norm := mat.Norm(&next, 2)
		if !(norm > 0) {
			return nil, errSingular
		}
		next.ScaleVec(1/norm, &next)
		cosine := mat.Dot(&next, v) / mat.Norm(v, 2)
		v.CopyVec(&next)
		if cosine > 1-1e-12 {
			break
		}
	}
	return v.RawVector().Data, nil
}

// energyOfNormality returns n times the energy distance between n standardised values and
// the standard normal distribution (Székely & Rizzo 2005).
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

// granRows is the maximum number of rows that gran uses.
const granRows = 150
