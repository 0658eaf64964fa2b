package heads

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
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

func TestBoundsOfShifted(t *testing.T) {
	normal := distuv.UnitNormal
	for _, variance := range []float64{.1, 2} {
		for _, mean := range []float64{-4, .3, 1} {
			r := Response{Variances: []float64{variance}, Means: []float64{mean}}
			for _, at := range []float64{.1, 1, 5, 20} {
				root, sd := math.Sqrt(r.Mean()+at), math.Sqrt(variance)
				holds(t, []any{variance, mean}, r, at, normal.Survival((root-mean)/sd)+normal.CDF((-root-mean)/sd))
			}
		}
	}
}

func TestBoundsOfNothing(t *testing.T) {
	constant := Response{Variances: []float64{0, 0}, Means: []float64{1, 2}}
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

func TestResponseOf(t *testing.T) {
	const h, k = 5, 3
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(rows, cols int) *mat.Dense {
		m := mat.NewDense(rows, cols, nil)
		for i := range rows {
			for j := range cols {
				m.Set(i, j, rng.NormFloat64())
			}
		}
		return m
	}
	c, root := draw(h, k), draw(h, h)
	cov := mat.NewSymDense(h, nil)
	cov.SymOuterK(1, root)
	mean := []float64{1, -2, 0, .5, 3}
	r, err := ResponseOf(c, mean, cov)
	if err != nil {
		t.Fatal(err)
	}
	// Moments of a quadratic form: E = tr S + mᵀm and var = 2 tr S² + 4 mᵀSm.
	var s, square mat.Dense
	s.Product(c.T(), cov, c)
	square.Mul(&s, &s)
	var m mat.VecDense
	m.MulVec(c.T(), mat.NewVecDense(h, mean))
	var variance float64
	for i, v := range r.Variances {
		variance += 2*v*v + 4*v*r.Means[i]*r.Means[i]
	}
	if want := mat.Trace(&s) + mat.Dot(&m, &m); math.Abs(r.Mean()-want) > 1e-9*want {
		t.Errorf("mean %v, want %v", r.Mean(), want)
	}
	if want := 2*mat.Trace(&square) + 4*mat.Inner(&m, &s, &m); math.Abs(variance-want) > 1e-9*want {
		t.Errorf("variance %v, want %v", variance, want)
	}
	negative := mat.NewSymDense(h, nil)
	negative.ScaleSym(-1, cov)
	if _, err := ResponseOf(c, nil, negative); err == nil {
		t.Error("a negative variance is taken")
	}
}

// TestDirections compares the rise of the expected score with that of rows
// that are shifted.
func TestDirections(t *testing.T) {
	phi := randomRows(500, 6, .7, 5)
	for i := range phi.Rows {
		phi.Data[i*phi.Stride+2] *= .2
	}
	for _, centre := range []bool{false, true} {
		m := &Moments{}
		if err := m.Add(phi); err != nil {
			t.Fatal(err)
		}
		c, err := ExactCertificates(m, CertificatesOptions{K: 4, Centre: centre})
		if err != nil {
			t.Fatal(err)
		}
		directions, err := c.Directions(m)
		if err != nil {
			t.Fatal(err)
		}
		mean := func(v []float64) float64 {
			var s float64
			for _, x := range v {
				s += x / float64(len(v))
			}
			return s
		}
		before, blind := mean(c.Score(nil, phi)), 0
		for i, d := range directions {
			if i > 0 && d.Variance > directions[i-1].Variance {
				t.Errorf("direction %d has more variance than the one before", i)
			}
			for _, length := range []float64{2, -1.5} {
				shifted := newGeneral(phi.Rows, phi.Cols)
				for r := range phi.Rows {
					for j := range phi.Cols {
						shifted.Data[r*shifted.Stride+j] = phi.Data[r*phi.Stride+j] + float32(length*d.Vector[j])
					}
				}
				if got, want := d.Rise(length), mean(c.Score(nil, shifted))-before; math.Abs(got-want) > 1e-5 {
					t.Errorf("centred %v, direction %d: a shift of %v raises the score by %v, not %v", centre, i, length, want, got)
				}
			}
			if d.Seen == 0 {
				blind++
				if !math.IsInf(d.Shift(.1), 1) {
					t.Errorf("direction %d is not seen, and a shift of %v is", i, d.Shift(.1))
				}
			} else if s := d.Shift(.1); math.Abs(max(d.Rise(s), d.Rise(-s))-.1) > 1e-9 {
				t.Errorf("direction %d: a shift of %v raises the score by %v", i, s, max(d.Rise(s), d.Rise(-s)))
			}
		}
		// Centred, certificates are principal directions, and see all or nothing of one.
		if centre && blind != 2 || !centre && blind != 0 {
			t.Errorf("centred %v: %d directions are not seen", centre, blind)
		}
	}
}
