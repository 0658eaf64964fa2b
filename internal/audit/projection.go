package audit

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
)

// Point is the position of a retained row in a two-dimensional plot.
type Point struct {
	X, Y  float64
	Worst bool // the row has one of the highest scores; otherwise it is from the sample
}

// Projection projects the normalised features of the retained rows onto their first two
// principal components. It returns nil if there are fewer than 3 rows or 2 features.
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
	// The computation is in float64, because a float32 result would depend on the BLAS
	// library.
	gram := mat.NewSymDense(n, nil)
	gram.SymOuterK(1, x)
	values, vectors, err := eigen.Sym(gram)
	if err != nil {
		return nil, err
	}
	first, second := 0, 1
	if values[n-1] > values[0] {
		first, second = n-1, n-2
	}
	coordinate := func(k, i int) float64 {
		v := vectors.At(i, k) * math.Sqrt(max(values[k], 0))
		if vectors.At(0, k) < 0 { // the sign of an eigenvector is arbitrary, so fix it
			v = -v
		}
		return v
	}
	for i := range points {
		points[i].X, points[i].Y = coordinate(first, i), coordinate(second, i)
	}
	return points, nil
}
