package theorem1

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

func bounds(r Response, t float64) map[string]float64 {
	return map[string]float64{"norm": r.NormBound(t), "Laurent-Massart": r.LaurentMassart(t), "Chernoff": r.Chernoff(t)}
}

func holds(t *testing.T, what any, r Response, at, tail float64) {
	t.Helper()
	for name, b := range bounds(r, at) {
		if !(b >= tail*(1-1e-9)) || b > 1 {
			t.Errorf("%v, t = %v: %s bound is %v, the tail %v", what, at, name, b, tail)
		}
	}
	if c, l := r.Chernoff(at), r.LaurentMassart(at); c > l*(1+1e-9) {
		t.Errorf("%v, t = %v: Chernoff's bound %v is above Laurent and Massart's %v", what, at, c, l)
	}
}

func equal(k int, variance float64) Response {
	r := Response{Variances: make([]float64, k)}
	for i := range r.Variances {
		r.Variances[i] = variance
	}
	return r
}

// TestBoundsOfChiSquare compares with the exact tail of equal variances.
func TestBoundsOfChiSquare(t *testing.T) {
	violated, held := 0, 0
	for _, k := range []int{1, 2, 5, 20, 100} {
		for _, variance := range []float64{.01, 1, 30} {
			r := equal(k, variance)
			if math.Abs(r.Mean()-float64(k)*variance) > 1e-9 {
				t.Errorf("mean %v", r.Mean())
			}
			for _, sd := range []float64{.1, .5, 1, 2, 3, 5, 8} {
				at := sd * variance * math.Sqrt(2*float64(k))
				tail := distuv.ChiSquared{K: float64(k)}.Survival((r.Mean() + at) / variance)
				holds(t, []any{k, variance}, r, at, tail)
				if r.PrintedBound(at) < tail {
					violated++
				} else {
					held++
				}
				// The least of (1−u)^(−k/2)·exp(−u(k+t/γ)/2) is at u = z/(1+z), z = t/(kγ).
				z := at / r.Mean()
				if want := math.Exp(-float64(k) / 2 * (z - math.Log1p(z))); math.Abs(r.Chernoff(at)-want) > 1e-9*want {
					t.Errorf("k = %d, γ = %v, t = %v: Chernoff's bound is %v, want %v", k, variance, at, r.Chernoff(at), want)
				}
			}
		}
	}
	if violated == 0 || held == 0 {
		t.Errorf("the printed bound is violated %d times and holds %d times", violated, held)
	}
}

// The paper's bound against the tail where both are known.
func TestPrintedBoundIsNone(t *testing.T) {
	r := equal(1, 1)
	tail := distuv.ChiSquared{K: 1}.Survival(6)
	if printed := r.PrintedBound(5); math.Abs(printed-3.7266531720786709e-06) > 1e-12 || math.Abs(tail-.0143058784354296) > 1e-9 || printed >= tail {
		t.Errorf("printed %v, tail %v", printed, tail)
	}
	// Laurent & Massart's is the x that makes t = 2√x + 2x.
	if x := -math.Log(r.LaurentMassart(5)); math.Abs(2*math.Sqrt(x)+2*x-5) > 1e-12 {
		t.Errorf("x = %v", x)
	}
}

func TestBoundsOfUnequalVariances(t *testing.T) {
	const a, b = 3.0, .5
	r := Response{Variances: []float64{a, b, a, b, 0}} // two exponential variables, of means 2a and 2b
	for _, at := range []float64{.1, 1, 5, 20, 60} {
		x := r.Mean() + at
		holds(t, r.Variances, r, at, (a*math.Exp(-x/(2*a))-b*math.Exp(-x/(2*b)))/(a-b))
	}
}

func TestBoundsOfNothing(t *testing.T) {
	constant := Response{Variances: []float64{0, 0}}
	for name, b := range bounds(constant, 1) {
		if b != 0 {
			t.Errorf("%s bound of a constant is %v", name, b)
		}
	}
	for name, b := range bounds(equal(2, 1), 0) {
		if b != 1 {
			t.Errorf("%s bound at 0 is %v", name, b)
		}
	}
}
