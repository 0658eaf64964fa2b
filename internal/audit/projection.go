package audit

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
)

// Point is a row in two dimensions.
type Point struct {
	X, Y  float64
	Worst bool // among the rows with the highest scores, and not from the sample
}

// Projection projects the normalised features of the retained rows onto their first two
// principal components. It is nil if there are too few rows or features.
func (a *Audit) Projection() ([]Point, error) {
	var points []Point
	list := a.retained.Sample
	for range list {
		points = append(points, Point{})
	}
	for _, r := range a.retained.Worst {
		list = append(list, r)
		points = append(points, Point{Worst: true})
	}
	n := len(list)
	if n < 3 || len(list[0].Features) < 2 {
		return nil, nil
	}
	x := mat.NewDense(n, len(list[0].Features), nil)
	_, width := x.Dims()
	mean := make([]float64, width)
	for i, r := range list {
		scale := rows.InverseNorm(r.Features)
		for j, v := range r.Features {
			x.Set(i, j, scale*float64(v))
			mean[j] += scale * float64(v) / float64(n)
		}
	}
	for i := range n {
		for j, v := range mean {
			x.Set(i, j, x.At(i, j)-v)
		}
	}
	// In float32, the result would depend on the BLAS implementation.
	sym := mat.NewSymDense(n, nil)
	sym.SymOuterK(1, x)
	values, vectors, err := eigen.Sym(sym)
	if err != nil {
		return nil, err
	}
	first, second := 0, 1
	if values[n-1] > values[0] {
		first, second = n-1, n-2
	}
	coordinate := func(k, i int) float64 {
		v := vectors.At(i, k) * math.Sqrt(max(values[k], 0))
		if vectors.At(0, k) < 0 { // the sign is arbitrary
			v = -v
		}
		return v
	}
	for i := range points {
		points[i].X, points[i].Y = coordinate(first, i), coordinate(second, i)
	}
	return points, nil
}
