package baselines

import (
	"math"
	"sync/atomic"
)

// boundaries is a last layer with what its decision boundaries are made of.
type boundaries struct {
	lastLayer
	// distances[y] are those between row y of the weights and all rows, worked
	// out when y is first predicted.
	distances []atomic.Pointer[[]float64]
}

func newBoundaries(l lastLayer) boundaries {
	return boundaries{l, make([]atomic.Pointer[[]float64], l.weight.Rows)}
}

// from is never below the least positive float32, by which one may divide.
func (s boundaries) from(y int) []float64 {
	if d := s.distances[y].Load(); d != nil {
		return *d
	}
	d := make([]float64, s.weight.Rows)
	wy := row(s.weight, y)
	for k := range d {
		var sum float64
		for j, v := range row(s.weight, k) {
			sum += (float64(v) - float64(wy[j])) * (float64(v) - float64(wy[j]))
		}
		d[k] = max(math.Sqrt(sum), math.SmallestNonzeroFloat32)
	}
	s.distances[y].Store(&d)
	return d
}
