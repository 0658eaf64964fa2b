package table3

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// hsicRows is the maximum number of rows of a dependence test.
const hsicRows = 1024

// hsic is the result of a kernel test of dependence.
//
// Reference: Gretton et al. (2007), A kernel statistical test of independence. The null
// distribution is the gamma approximation of Zhang et al. (2011), and the kernel widths
// come from their implementation.
type hsic struct {
	statistic float64
	logP      float64 // logarithm of the p-value
}

func newHSIC(x, y []float64) hsic {
	k, l := centredGram(x), centredGram(y)
	n := float64(len(x))
	var traceK, traceL float64
	for i := range x {
		traceK, traceL = traceK+k[i*len(x)+i], traceL+l[i*len(x)+i]
	}
	mean := traceK * traceL / n
	variance := 2 * floats.Dot(k, k) * floats.Dot(l, l) / (n * n)
	h := hsic{statistic: floats.Dot(k, l)}
	null := distuv.Gamma{Alpha: mean * mean / variance, Beta: mean / variance}
	if h.logP = math.Log(null.Survival(h.statistic)); math.IsInf(h.logP, -1) {
		// The tail underflows, so take the density, which falls at nearly the same rate.
		h.logP = null.LogProb(h.statistic)
	}
	return h
}

// centredGram returns the Gaussian kernel matrix of standardised values, with row and
// column means subtracted.
func centredGram(v []float64) []float64 {
	n := len(v)
	width := .3
	switch {
	case n < 200:
		width = .8
	case n < 1200:
		width = .5
	}
	sd := stat.StdDev(v, nil)
	k := make([]float64, n*n)
	means := make([]float64, n)
	for i, a := range v {
		k[i*n+i] = 1
		for j, b := range v[:i] {
			d := (a - b) / (sd * width)
			value := math.Exp(-d * d / 2)
			k[i*n+j], k[j*n+i] = value, value
		}
	}
	for i := range n {
		means[i] = floats.Sum(k[i*n:(i+1)*n]) / float64(n)
	}
	grandMean := floats.Sum(means) / float64(n)
	for i := range n {
		for j := range n {
			k[i*n+j] += grandMean - means[i] - means[j]
		}
	}
	return k
}

// lessDependent is positive if the first p-value is larger.
func lessDependent(a, b hsic) float64 { return a.logP - b.logP }
