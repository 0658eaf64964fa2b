package theorem1

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

func bounds(r Response, t float64) map[string]float64 {
	return map[string]float64{"norm": r.NormBound(t), "Laurent-Massart": r.LaurentMassart(t), "Chernoff": r.Chernoff(t)}
}

func checkBounds(t *testing.T, label any, r Response, threshold, tail float64) {
	t.Helper()
	for name, b := range bounds(r, threshold) {
		if !(b >= tail*(1-1e-9)) || b > 1 {
			t.Errorf("%v, t = %v: %s bound is %v, the tail %v", label, threshold, name, b, tail)
		}
	}
	if c, l := r.Chernoff(threshold), r.LaurentMassart(threshold); c > l*(1+1e-9) {
		t.Errorf("%v, t = %v: Chernoff's bound %v is above Laurent and Massart's %v", label, threshold, c, l)
	}
}

func equalVariances(k int, variance float64) Response {
	r := Response{Variances: make([]float64, k)}
	for i := range r.Variances {
		r.Variances[i] = variance
	}
	return r
}

// TestBoundsOfChiSquare compares the bounds with the exact tail of equal variances.
func TestBoundsOfChiSquare(t *testing.T) {
	violationCount, holdCount := 0, 0
	for _, k := range []int{1, 2, 5, 20, 100} {
		for _, variance := range []float64{.01, 1, 30} {
			r := equalVariances(k, variance)
			if math.Abs(r.Mean()-float64(k)*variance) > 1e-9 {
				t.Errorf("mean %v", r.Mean())
			}
			for _, sd := range []float64{.1, .5, 1, 2, 3, 5, 8} {
				threshold := sd * variance * math.Sqrt(2*float64(k))
				tail := distuv.ChiSquared{K: float64(k)}.Survival((r.Mean() + threshold) / variance)
				checkBounds(t, []any{k, variance}, r, threshold, tail)
				if r.PrintedBound(threshold) < tail {
					violationCount++
				} else {
					holdCount++
				}
				// The minimum of (1−u)^(−k/2)·exp(−u(k+t/γ)/2) is at u = z/(1+z),
				// with z = t/(kγ).
				z := threshold / r.Mean()
				if want := math.Exp(-float64(k) / 2 * (z - math.Log1p(z))); math.Abs(r.Chernoff(threshold)-want) > 1e-9*want {
					t.Errorf("k = %d, γ = %v, t = %v: Chernoff's bound is %v, want %v", k, variance, threshold, r.Chernoff(threshold), want)
				}
			}
		}
	}
	if violationCount == 0 || holdCount == 0 {
		t.Errorf("the printed bound is violated %d times and holds %d times", violationCount, holdCount)
	}
}

// TestPrintedBoundIsNoBound checks an example in which the paper's bound lies below the exact
// tail.
func TestPrintedBoundIsNoBound(t *testing.T) {
	r := equalVariances(1, 1)
	tail := distuv.ChiSquared{K: 1}.Survival(6)
	if printed := r.PrintedBound(5); math.Abs(printed-3.7266531720786709e-06) > 1e-12 || math.Abs(tail-.0143058784354296) > 1e-9 || printed >= tail {
		t.Errorf("printed %v, tail %v", printed, tail)
	}
	// The Laurent-Massart bound satisfies t = 2√x + 2x for one variance of 1.
	if x := -math.Log(r.LaurentMassart(5)); math.Abs(2*math.Sqrt(x)+2*x-5) > 1e-12 {
		t.Errorf("x = %v", x)
	}
}

func TestBoundsOfUnequalVariances(t *testing.T) {
	const a, b = 3.0, .5
	r := Response{Variances: []float64{a, b, a, b, 0}} // sum of two exponential variables with means 2a and 2b
	for _, threshold := range []float64{.1, 1, 5, 20, 60} {
		x := r.Mean() + threshold
		checkBounds(t, r.Variances, r, threshold, (a*math.Exp(-x/(2*a))-b*math.Exp(-x/(2*b)))/(a-b))
	}
}

func TestBoundsOfNothing(t *testing.T) {
	constant := Response{Variances: []float64{0, 0}}
	for name, b := range bounds(constant, 1) {
		if b != 0 {
			t.Errorf("%s bound of a constant is %v", name, b)
		}
	}
	for name, b := range bounds(equalVariances(2, 1), 0) {
		if b != 1 {
			t.Errorf("%s bound at 0 is %v", name, b)
		}
	}
}
