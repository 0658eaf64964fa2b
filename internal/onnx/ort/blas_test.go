package ort_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
)

type real interface{ float32 | float64 }

func random[T real](rng *rand.Rand, n int) []T {
	x := make([]T, n)
	for i := range x {
		x[i] = T(rng.NormFloat64())
	}
	return x
}

func maxRelativeError[T real](got, want []T) float64 {
	var scale, diff float64
	for i, w := range want {
		scale = max(scale, math.Abs(float64(w)))
		d := math.Abs(float64(got[i]) - float64(w))
		if math.IsNaN(d) {
			return math.Inf(1)
		}
		diff = max(diff, d)
	}
	return diff / scale
}

type gemm[T real] func(tA, tB blas.Transpose, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int)

type syrk[T real] func(ul blas.Uplo, tA blas.Transpose, n, k int, alpha T, a []T, lda int, beta T, c []T, ldc int)

func TestGemm(t *testing.T) {
	b := orttest.Open(t).BLAS()
	t.Run("float32", func(t *testing.T) { testGemm(t, gemm[float32](b.Sgemm), gonum.Implementation{}.Sgemm, 1e-5) })
	t.Run("float64", func(t *testing.T) { testGemm(t, gemm[float64](b.Dgemm), gonum.Implementation{}.Dgemm, 1e-13) })
}

func testGemm[T real](t *testing.T, got, want gemm[T], tol float64) {
	rng := rand.New(rand.NewPCG(1, 2))
	coefficients := []T{1, 0, -0.5, 2, -1}
	for i := range 60 {
		tA, tB := []blas.Transpose{blas.NoTrans, blas.Trans}[i&1], []blas.Transpose{blas.NoTrans, blas.Trans}[i>>1&1]
		m, n, k := 1+rng.IntN(150), 1+rng.IntN(150), 1+rng.IntN(300)
		alpha, beta := coefficients[rng.IntN(5)], coefficients[rng.IntN(5)]
		rowsA, colsA, rowsB, colsB := m, k, k, n
		if tA == blas.Trans {
			rowsA, colsA = k, m
		}
		if tB == blas.Trans {
			rowsB, colsB = n, k
		}
		gap := i / 4 % 3
		lda, ldb, ldc := colsA+gap, colsB+2*gap, n+gap
		// BLAS does not require the gap after the last row.
		a, b := random[T](rng, (rowsA-1)*lda+colsA), random[T](rng, (rowsB-1)*ldb+colsB)
		c := random[T](rng, (m-1)*ldc+n)
		if beta == 0 {
			c[0] = T(math.NaN())
		}
		d := append([]T(nil), c...)
		got(tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
		want(tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, d, ldc)
		if e := maxRelativeError(c, d); e > tol {
			t.Errorf("tA=%c tB=%c %d×%d×%d α=%v β=%v gap=%d: relative error %g", tA, tB, m, n, k, alpha, beta, gap, e)
		}
	}
}

func TestSyrk(t *testing.T) {
	b := orttest.Open(t).BLAS()
	t.Run("float32", func(t *testing.T) { testSyrk(t, syrk[float32](b.Ssyrk), gonum.Implementation{}.Ssyrk, 1e-5) })
	t.Run("float64", func(t *testing.T) { testSyrk(t, syrk[float64](b.Dsyrk), gonum.Implementation{}.Dsyrk, 1e-13) })
}

func testSyrk[T real](t *testing.T, got, want syrk[T], tol float64) {
	rng := rand.New(rand.NewPCG(3, 4))
	coefficients := []T{1, 0, -0.5, 2, -1}
	for i := range 60 {
		tA, ul := []blas.Transpose{blas.NoTrans, blas.Trans}[i&1], []blas.Uplo{blas.Upper, blas.Lower}[i>>1&1]
		n, k := 1+rng.IntN(200), 1+rng.IntN(400)
		alpha, beta := coefficients[rng.IntN(5)], coefficients[rng.IntN(5)]
		rows, cols := n, k
		if tA == blas.Trans {
			rows, cols = k, n
		}
		gap := i / 4 % 3
		lda, ldc := cols+gap, n+gap
		a, c := random[T](rng, (rows-1)*lda+cols), random[T](rng, (n-1)*ldc+n)
		d := append([]T(nil), c...)
		got(ul, tA, n, k, alpha, a, lda, beta, c, ldc)
		want(ul, tA, n, k, alpha, a, lda, beta, d, ldc)
		if e := maxRelativeError(c, d); e > tol {
			t.Errorf("ul=%c tA=%c %d×%d α=%v β=%v gap=%d: relative error %g", ul, tA, n, k, alpha, beta, gap, e)
		}
	}
}

// TestGemmInParts checks products with a strided operand that exceeds maxPanel, so that it
// is copied in parts.
func TestGemmInParts(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds")
	}
	b := orttest.Open(t).BLAS()
	rng := rand.New(rand.NewPCG(5, 6))
	const rows, cols, gap = 90_000, 100, 1
	x := random[float32](rng, rows*(cols+gap))
	for _, tA := range []blas.Transpose{blas.NoTrans, blas.Trans} {
		m, k := rows, cols
		if tA == blas.Trans {
			m, k = cols, rows
		}
		const n = 8
		y := random[float32](rng, k*n)
		got, want := make([]float32, m*n), make([]float32, m*n)
		b.Sgemm(tA, blas.NoTrans, m, n, k, 1, x, cols+gap, y, n, 0, got, n)
		gonum.Implementation{}.Sgemm(tA, blas.NoTrans, m, n, k, 1, x, cols+gap, y, n, 0, want, n)
		if e := maxRelativeError(got, want); e > 1e-5 {
			t.Errorf("tA=%c: relative error %g", tA, e)
		}
	}
	// gonum's float32 sum of 90,000 terms has a relative error of 2e-5, so compare with
	// float64. To save time, compare only the first few columns.
	const few = 20
	got, want := make([]float32, cols*cols), make([]float32, few*few)
	b.Ssyrk(blas.Upper, blas.Trans, cols, rows, 1, x, cols+gap, 0, got, cols)
	wide, exact := make([]float64, len(x)), make([]float64, few*few)
	for i, v := range x {
		wide[i] = float64(v)
	}
	gonum.Implementation{}.Dsyrk(blas.Upper, blas.Trans, few, rows, 1, wide, cols+gap, 0, exact, few)
	for i, v := range exact {
		want[i] = float32(v)
		got[i] = got[i/few*cols+i%few]
	}
	if e := maxRelativeError(got[:few*few], want); e > 1e-5 {
		t.Errorf("syrk: relative error %g", e)
	}
}

func TestBLASAfterClose(t *testing.T) {
	r := orttest.Open(t)
	b := r.BLAS()
	r.Close()
	rng := rand.New(rand.NewPCG(7, 8))
	const n = 100
	x, got, want := random[float32](rng, n*n), make([]float32, n*n), make([]float32, n*n)
	b.Sgemm(blas.NoTrans, blas.NoTrans, n, n, n, 1, x, n, x, n, 0, got, n)
	gonum.Implementation{}.Sgemm(blas.NoTrans, blas.NoTrans, n, n, n, 1, x, n, x, n, 0, want, n)
	if maxRelativeError(got, want) != 0 {
		t.Error("a closed runtime's BLAS is not gonum's")
	}
}

// TestBLASPanics checks that a slice that is too short panics, as in gonum.
func TestBLASPanics(t *testing.T) {
	b := orttest.Open(t).BLAS()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	const n = 100
	x := make([]float32, n*n)
	b.Sgemm(blas.NoTrans, blas.NoTrans, n, n, n, 1, x[:n*n-1], n, x, n, 0, x, n)
}

func BenchmarkGemm(b *testing.B) {
	runtimeBLAS := orttest.Open(b).BLAS()
	for _, s := range []struct{ m, n, k int }{{48, 48, 48}, {64, 64, 64}, {1, 512, 512}, {128, 128, 128}, {4096, 512, 512}} {
		rng := rand.New(rand.NewPCG(1, 2))
		x, y, z := random[float32](rng, s.m*s.k), random[float32](rng, s.k*s.n), make([]float32, s.m*s.n)
		dx, dy, dz := random[float64](rng, s.m*s.k), random[float64](rng, s.k*s.n), make([]float64, s.m*s.n)
		for _, c := range []struct {
			name string
			f    gemm[float32]
			d    gemm[float64]
		}{{"runtime", runtimeBLAS.Sgemm, runtimeBLAS.Dgemm}, {"gonum", gonum.Implementation{}.Sgemm, gonum.Implementation{}.Dgemm}} {
			b.Run(fmt.Sprintf("float32/%d×%d×%d/%s", s.m, s.n, s.k, c.name), func(b *testing.B) {
				for b.Loop() {
					c.f(blas.NoTrans, blas.NoTrans, s.m, s.n, s.k, 1, x, s.k, y, s.n, 0, z, s.n)
				}
			})
			b.Run(fmt.Sprintf("float64/%d×%d×%d/%s", s.m, s.n, s.k, c.name), func(b *testing.B) {
				for b.Loop() {
					c.d(blas.NoTrans, blas.NoTrans, s.m, s.n, s.k, 1, dx, s.k, dy, s.n, 0, dz, s.n)
				}
			})
		}
	}
}

func BenchmarkSyrk(b *testing.B) {
	runtimeBLAS := orttest.Open(b).BLAS()
	const n, h = 50_000, 512
	rng := rand.New(rand.NewPCG(1, 2))
	x, s := random[float32](rng, n*h), make([]float32, h*h)
	dx, ds := random[float64](rng, n*h), make([]float64, h*h)
	for _, c := range []struct {
		name string
		f    syrk[float32]
		d    syrk[float64]
	}{{"runtime", runtimeBLAS.Ssyrk, runtimeBLAS.Dsyrk}, {"gonum", gonum.Implementation{}.Ssyrk, gonum.Implementation{}.Dsyrk}} {
		b.Run("float32/"+c.name, func(b *testing.B) {
			for b.Loop() {
				c.f(blas.Upper, blas.Trans, h, n, 1, x, h, 0, s, h)
			}
		})
		b.Run("float64/"+c.name, func(b *testing.B) {
			for b.Loop() {
				c.d(blas.Upper, blas.Trans, h, n, 1, dx, h, 0, ds, h)
			}
		})
	}
}
