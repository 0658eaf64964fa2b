package dense

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

func TestInverseRoot(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 64, 65, 150} {
		x := New(2*n, n)
		for i := range x.Data {
			x.Data[i] = r.NormFloat64()
		}
		a := mat.NewSymDense(n, nil)
		blas64.Syrk(blas.Trans, 1, x, 0, a.RawSymmetric())
		p, ok := InverseRoot(a)
		if !ok {
			t.Fatalf("%d×%d: not positive definite", n, n)
		}
		root := mat.NewDense(n, n, p.Data)
		var product mat.Dense
		product.Mul(a, root)
		product.Mul(&product, root.T())
		for i := range n {
			for j := range n {
				want := 0.
				if i == j {
					want = 1
				}
				if v := product.At(i, j); math.Abs(v-want) > 1e-9 {
					t.Fatalf("%d×%d: %v at %d, %d of a times its inverse", n, n, v, i, j)
				}
			}
		}
	}
	if _, ok := InverseRoot(mat.NewSymDense(2, []float64{1, 2, 2, 1})); ok {
		t.Error("a root of an indefinite matrix")
	}
}
