package audit

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/eigen"
	"github.com/attach-uncertainty/attach/internal/rows"
)

// Point is a row in two dimensions.
type Point struct {
	X, Y  float64
	Worst bool // it is among the rows with the highest scores, or drawn from all
}

// Projection places the rows with the highest scores and rows drawn from all along the
// two directions in which the features of all these, of norm 1, vary the most.
func (a *Audit) Projection() ([]Point, error) {
	var points []Point
	list := a.kept.Drawn
	for range list {
		points = append(points, Point{})
	}
	for _, r := range a.kept.Worst {
		list = append(list, r)
		points = append(points, Point{Worst: true})
	}
	n := len(list)
	if n < 3 || len(list[0].Features) < 2 {
		return nil, nil
	}
	x := rows.New(n, len(list[0].Features))
	mean := make([]float64, x.Cols)
	for i, r := range list {
		scale := rows.InverseNorm(r.Features)
		for j, v := range r.Features {
			u := scale * float64(v)
			rows.Row(x, i)[j] = float32(u)
			mean[j] += u / float64(n)
		}
	}
	for i := range n {
		for j := range mean {
			rows.Row(x, i)[j] -= float32(mean[j])
		}
	}
	gram := rows.New(n, n)
	blas32.Gemm(blas.NoTrans, blas.Trans, 1, x, x, 0, gram)
	sym := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			sym.SetSym(i, j, float64(gram.Data[i*gram.Stride+j]))
		}
	}
	values, vectors, err := eigen.Sym(sym)
	if err != nil {
		return nil, err
	}
	first, second := 0, 1
	if values[n-1] > values[0] {
		first, second = n-1, n-2
	}
	place := func(k, i int) float64 {
		v := vectors.At(i, k) * math.Sqrt(max(values[k], 0))
		if vectors.At(0, k) < 0 { // either sign is as good
			v = -v
		}
		return v
	}
	for i := range points {
		points[i].X, points[i].Y = place(first, i), place(second, i)
	}
	return points, nil
}
