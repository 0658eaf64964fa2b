package eigen

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// random returns a random positive semidefinite n×n matrix with the given rank. Row and column i
// are multiplied by scale(i).
func random(n, rank int, seed uint64, scale func(i int) float64) *mat.SymDense {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := mat.NewDense(n, max(rank, 1), nil)
	for i := range n {
		for j := range rank {
			x.Set(i, j, scale(i)*rng.NormFloat64())
		}
	}
	s := mat.NewSymDense(n, nil)
	s.SymOuterK(1/float64(n), x)
	return s
}

func constantOne(int) float64 { return 1 }

func TestSym(t *testing.T) {
	identity := mat.NewSymDense(7, nil)
	indefinite := mat.NewSymDense(41, nil)
	rng := rand.New(rand.NewPCG(2, 2))
	for i := range 41 {
		if i < 7 {
			identity.SetSym(i, i, 3)
		}
		for j := i; j < 41; j++ {
			indefinite.SetSym(i, j, rng.NormFloat64())
		}
	}
	zeroRows := random(30, 30, 3, func(i int) float64 { return float64(i % 3) })
	laplace := mat.NewSymDense(64, nil)
	for i := range 64 {
		laplace.SetSym(i, i, 2)
		if i > 0 {
			laplace.SetSym(i-1, i, -1)
		}
	}
	for name, a := range map[string]*mat.SymDense{
		"one":         random(1, 1, 1, constantOne),
		"two":         random(2, 2, 1, constantOne),
		"five":        random(5, 5, 1, constantOne),
		"many":        random(130, 200, 1, constantOne),
		"rank 20":     random(90, 20, 1, constantOne),
		"zero":        mat.NewSymDense(6, nil),
		"identity":    identity,
		"indefinite":  indefinite,
		"dead rows":   zeroRows,
		"graded up":   random(40, 60, 1, func(i int) float64 { return math.Pow(10, float64(i)/5-4) }),
		"graded down": random(40, 60, 1, func(i int) float64 { return math.Pow(10, 4-float64(i)/5) }),
		"huge":        random(20, 30, 1, func(int) float64 { return 1e100 }),
		"tiny":        random(20, 30, 1, func(int) float64 { return 1e-100 }),
		"laplace":     laplace,
	} {
		t.Run(name, func(t *testing.T) {
			n := a.SymmetricDim()
			values := check(t, a)
			if name == "laplace" {
				tol := 1e-14 * float64(n) * values[n-1]
				for i := range values {
					if w := 2 - 2*math.Cos(float64(i+1)*math.Pi/65); math.Abs(values[i]-w) > tol {
						t.Errorf("value %d is %v, in closed form %v", i, values[i], w)
					}
				}
			}
		})
	}
}

// check compares the eigenvalues of Sym with those of mat.EigenSym. It also checks that the
// eigenvectors solve the eigenproblem and are orthonormal.
func check(t *testing.T, a mat.Symmetric) []float64 {
	t.Helper()
	n := a.SymmetricDim()
	values, v, err := Sym(a)
	if err != nil {
		t.Fatal(err)
	}
	var eig mat.EigenSym
	eig.Factorize(a, true)
	want := eig.Values(nil)
	tol := 1e-14 * float64(n) * max(math.Abs(want[0]), math.Abs(want[n-1]))
	for i := range want {
		if math.Abs(values[i]-want[i]) > tol {
			t.Errorf("value %d is %v, want %v", i, values[i], want[i])
		}
		if i > 0 && values[i] < values[i-1] {
			t.Errorf("value %d is %v after %v", i, values[i], values[i-1])
		}
	}
	var av, vl, vtv mat.Dense
	av.Mul(a, v)
	vl.Mul(v, mat.NewDiagDense(n, values))
	av.Sub(&av, &vl)
	if r := mat.Norm(&av, math.Inf(1)); !(r <= 4*tol) {
		t.Errorf("residual %v", r)
	}
	vtv.Mul(v.T(), v)
	for i := range n {
		vtv.Set(i, i, vtv.At(i, i)-1)
	}
	if r := mat.Norm(&vtv, math.Inf(1)); !(r <= 1e-14*float64(n)*4) {
		t.Errorf("vectors differ from orthonormal ones by %v", r)
	}
	return values
}

func TestSymRefusesNaN(t *testing.T) {
	a := random(5, 5, 1, constantOne)
	a.SetSym(1, 3, math.NaN())
	if _, _, err := Sym(a); !errors.Is(err, ErrNoConvergence) {
		t.Errorf("error %v, want %v", err, ErrNoConvergence)
	}
	a.SetSym(1, 3, math.Inf(-1))
	if _, _, err := Sym(a); !errors.Is(err, ErrNoConvergence) {
		t.Errorf("with Inf: error %v, want %v", err, ErrNoConvergence)
	}
}

func BenchmarkSym(b *testing.B) {
	for _, n := range []int{256, 512, 1024, 2048} {
		a := random(n, 2*n, 1, constantOne)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, _, err := Sym(a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
