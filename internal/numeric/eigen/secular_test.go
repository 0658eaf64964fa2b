package eigen

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestSecularOfTwoPoles compares roots with the closed form for two poles: λ² −
// (d₀+d₁+ρ(z₀²+z₁²))λ + d₀d₁ + ρ(z₀²d₁+z₁²d₀) = 0.
func TestSecularOfTwoPoles(t *testing.T) {
	for _, s := range []secularEquation{
		{d: []float64{0, 1}, squares: []float64{.5, .5}, rho: 1},
		{d: []float64{0, 1}, squares: []float64{1 - 1e-12, 1e-12}, rho: 3},
		{d: []float64{0, 1}, squares: []float64{1e-12, 1 - 1e-12}, rho: 3},
		{d: []float64{-2, -2 + 1e-10}, squares: []float64{.3, .7}, rho: 1e-6},
		{d: []float64{0, 1}, squares: []float64{.5, .5}, rho: 1e-8},
		{d: []float64{0, 1}, squares: []float64{.5, .5}, rho: 1e8},
	} {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			width := s.d[1] - s.d[0]
			p, q := s.rho*s.squares[0], s.rho*s.squares[1]
			// For μ = λ − d₀, the equation is μ² − (width+p+q)μ + p·width = 0.
			b := width + p + q
			upper := (b + math.Sqrt((width-p-q)*(width-p-q)+4*q*width)) / 2
			for i, mu := range []float64{p * width / upper, upper} {
				gaps := make([]float64, 2)
				s.root(i, gaps)
				if got := -gaps[0]; math.Abs(got-mu) > 1e-14*mu {
					t.Errorf("root %d is %v above the first pole, want %v", i, got, mu)
				}
			}
		})
	}
}

// TestSecularRoots checks that roots interlace with the poles. It also computes f with many
// more digits and checks that f changes sign at each root.
func TestSecularRoots(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		name   string
		d, z   func(i int) float64
		rho    float64
		margin float64
	}{
		{name: "even", d: func(i int) float64 { return float64(i) }, z: constantOne, rho: 1},
		{name: "large rho", d: func(i int) float64 { return float64(i) }, z: constantOne, rho: 1e6},
		{name: "small rho", d: func(i int) float64 { return float64(i) }, z: constantOne, rho: 1e-10},
		{name: "random weights", d: func(i int) float64 { return float64(i) }, z: func(int) float64 { return math.Pow(10, -7*rng.Float64()) }, rho: 1},
		{name: "graded", d: func(i int) float64 { return math.Pow(3, float64(i)) }, z: constantOne, rho: 1},
		{name: "pairs", d: func(i int) float64 { return float64(i/2) + 1e-11*float64(i%2) }, z: constantOne, rho: 2},
		{name: "geometric weights", d: func(i int) float64 { return float64(i) }, z: func(i int) float64 { return math.Pow(2, -float64(i%24)) }, rho: 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			const k = 40
			s := secularEquation{d: make([]float64, k), squares: make([]float64, k), rho: c.rho}
			for i := range k {
				s.d[i] = c.d(i)
				s.squares[i] = c.z(i) * c.z(i) / k
			}
			gaps := make([]float64, k)
			for i := range k {
				s.root(i, gaps)
				nearest := i
				if i+1 < k && gaps[i+1] < -gaps[i] {
					nearest = i + 1
				}
				if !(gaps[i] < 0) || (i+1 < k && !(gaps[i+1] > 0)) {
					t.Fatalf("root %d lies %v and %v from its poles", i, gaps[i], gaps[min(i+1, k-1)])
				}
				// f must change sign if the distance to the nearest pole changes by a factor
				// of 1 ± 1e-13.
				x := -gaps[nearest]
				lo, hi := x-1e-13*math.Abs(x), x+1e-13*math.Abs(x)
				if f := exactSign(s, nearest, lo); f > 0 {
					t.Errorf("root %d: f below it is %v", i, f)
				}
				if f := exactSign(s, nearest, hi); f < 0 {
					t.Errorf("root %d: f above it is %v", i, f)
				}
			}
		})
	}
}

// exactSign returns the sign of f at d[origin] + x, computed with 400 bits.
func exactSign(s secularEquation, origin int, x float64) int {
	n := func(v float64) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(v) }
	f := new(big.Float).SetPrec(400).Quo(n(1), n(s.rho))
	for j, d := range s.d {
		gap := n(d)
		gap.Sub(gap, n(s.d[origin]))
		gap.Sub(gap, n(x))
		f.Add(f, gap.Quo(n(s.squares[j]), gap))
	}
	return f.Sign()
}
