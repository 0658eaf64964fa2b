package eigen

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// jacobi returns the symmetric tridiagonal n×n matrix with diagonal d and off-diagonal e.
func jacobi(n int, d, e func(i int) float64) *mat.SymDense {
	a := mat.NewSymDense(n, nil)
	for i := range n {
		a.SetSym(i, i, d(i))
		if i > 0 {
			a.SetSym(i-1, i, e(i-1))
		}
	}
	return a
}

func constant(v float64) func(int) float64 { return func(int) float64 { return v } }

func TestSymOfHardMatrices(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	normal := func(int) float64 { return rng.NormFloat64() }
	// The matrices are six copies of Wilkinson's W₂₁⁺, joined by the element glue. Most
	// eigenvalues of W₂₁⁺ come in pairs, which agree to up to 15 digits.
	wilkinson := func(glue float64) *mat.SymDense {
		return jacobi(6*21, func(i int) float64 { return math.Abs(float64(i%21) - 10) }, func(i int) float64 {
			if i%21 == 20 {
				return glue
			}
			return 1
		})
	}
	blocks := mat.NewSymDense(160, nil)
	for i := range 160 {
		for j := i; j < 160 && j/16 == i/16; j++ {
			blocks.SetSym(i, j, 1)
		}
	}
	arrow := mat.NewSymDense(120, nil)
	for i := range 120 {
		arrow.SetSym(i, i, float64(i/3))
		arrow.SetSym(0, i, 1)
	}
	clustered := random(200, 200, 5, constantOne)
	for i := range 200 {
		for j := i; j < 200; j++ {
			clustered.SetSym(i, j, 1e-9*clustered.At(i, j))
		}
		clustered.SetSym(i, i, clustered.At(i, i)+1)
	}
	allOnes := mat.NewSymDense(100, nil)
	for i := range 100 {
		for j := i; j < 100; j++ {
			allOnes.SetSym(i, j, 1)
		}
	}
	for name, a := range map[string]*mat.SymDense{
		"wilkinson glued by 1e-14": wilkinson(1e-14),
		"wilkinson glued by 1e-8":  wilkinson(1e-8),
		"wilkinson glued by 1":     wilkinson(1),
		"wilkinson apart":          wilkinson(0),
		"clement": jacobi(150, constant(0), func(i int) float64 {
			return math.Sqrt(float64(i+1) * float64(149-i))
		}),
		"equal diagonal":           jacobi(130, constant(5), normal),
		"negative off-diagonal":    jacobi(130, normal, func(int) float64 { return -math.Abs(rng.NormFloat64()) }),
		"tiny off-diagonal":        jacobi(140, normal, constant(1e-17)),
		"nearly diagonal":          jacobi(140, constant(1), constant(1e-13)),
		"graded rising":            jacobi(120, func(i int) float64 { return math.Pow(10, float64(i)/4-20) }, func(i int) float64 { return math.Pow(10, float64(i)/4-20.5) }),
		"graded falling":           jacobi(120, func(i int) float64 { return math.Pow(10, -float64(i)/4) }, func(i int) float64 { return math.Pow(10, -float64(i)/4-.5) }),
		"graded below underflow":   jacobi(120, func(i int) float64 { return math.Pow(10, -5*float64(i)) }, func(i int) float64 { return math.Pow(10, -5*float64(i)-1) }),
		"zero but for two entries": jacobi(80, constant(0), func(i int) float64 { return float64(i % 40 / 39) }),
		"random 200":               jacobi(200, normal, normal),
		"dense 200":                random(200, 300, 6, constantOne),
		"rank 3":                   random(200, 3, 7, constantOne),
		"rank 150":                 random(220, 150, 8, constantOne),
		"rank 1":                   allOnes,
		"blocks":                   blocks,
		"arrow":                    arrow,
		"clustered":                clustered,
		"largest":                  random(100, 120, 9, func(int) float64 { return 1e153 }),
		"least":                    random(100, 120, 9, func(int) float64 { return 1e-152 }),
	} {
		t.Run(name, func(t *testing.T) { check(t, a) })
	}
}

func TestSymOfAllSmallSizes(t *testing.T) {
	for n := 1; n <= 70; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			check(t, random(n, 2*n, uint64(n), constantOne))
			check(t, random(n, n/2, uint64(n), constantOne))
		})
	}
}

// symmetric hides the storage of a matrix, so Sym must read its elements with At.
type symmetric struct{ mat.Symmetric }

func TestSymTakesAnySymmetric(t *testing.T) {
	a := random(70, 90, 1, constantOne)
	want, _, err := Sym(a)
	if err != nil {
		t.Fatal(err)
	}
	if got := check(t, symmetric{a}); !slices.Equal(got, want) {
		t.Error("the values differ from those of the matrix with raw storage")
	}
}

func TestSymDoesNotDependOnProcessors(t *testing.T) {
	a := random(400, 500, 1, constantOne)
	var values []float64
	var vectors *mat.Dense
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, processors := range []int{1, 2, 3, 8} {
		runtime.GOMAXPROCS(processors)
		got, v, err := Sym(a)
		if err != nil {
			t.Fatal(err)
		}
		if values == nil {
			values, vectors = got, v
			continue
		}
		if !slices.Equal(got, values) || !mat.Equal(v, vectors) {
			t.Errorf("the result of %d processors differs from the result of one", processors)
		}
	}
}
